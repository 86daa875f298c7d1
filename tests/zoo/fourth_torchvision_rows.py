"""Parts and architectures of torchvision of a fourth sample, chosen before anything of it was run."""
from functools import partial

import torch
from torch import nn
from torchvision.models.detection import ssdlite
from torchvision.models.vision_transformer import ConvStemConfig, VisionTransformer

from row import Values
from third_torchvision_rows import Detector
from torchvision_rows import row

STEM = [ConvStemConfig(8, 3, 2), ConvStemConfig(16, 3, 2)]
ROWS = [
    row("ssdlite_head", lambda: Detector(ssdlite.SSDLiteHead([32, 32], [2, 2], 3, partial(nn.BatchNorm2d, eps=0.001, momentum=0.03)),
                                         lambda y: torch.cat([y["cls_logits"], y["bbox_regression"]], 2)), 64, Values((40, 7))),
    row("vit_conv_stem", lambda: VisionTransformer(32, 4, 2, 4, 32, 64, num_classes=10, conv_stem_configs=STEM), 32),
]
