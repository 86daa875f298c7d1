"""Parts and architectures of torchvision of a third sample, chosen before anything of it was run."""
from functools import partial

import torch
from torch import nn
from torchvision import models, ops
from torchvision.models import efficientnet, optical_flow, video
from torchvision.models.detection import fcos, keypoint_rcnn, mask_rcnn, retinanet, ssd

from row import Only, Row, Uniform, Values, image
from torchvision_rows import CLIP, backbone, row


class Detector(nn.Module):
    """What a head of torchvision's detectors says of features on two levels."""

    def __init__(self, head, pick):
        super().__init__()
        self.body, self.head, self.pick = backbone({"layer3": "0", "layer4": "1"}), head, pick
        self.pyramid = ops.FeaturePyramidNetwork([256, 512], 32)

    def forward(self, x):
        return self.pick(self.head(list(self.pyramid(self.body(x)).values())))


def efficientnet_v2():
    blocks = [efficientnet.FusedMBConvConfig(1, 3, 1, 8, 8, 1), efficientnet.FusedMBConvConfig(4, 3, 2, 8, 16, 1), efficientnet.MBConvConfig(4, 3, 2, 16, 24, 1)]
    return efficientnet.EfficientNet(blocks, 0.0, num_classes=10, last_channel=64)


def mvit_v1():
    blocks = [video.mvit.MSBlockConfig(1, 24, 48, [], [1, 4, 4], [], [3, 3, 3]), video.mvit.MSBlockConfig(2, 48, 48, [1, 2, 2], [1, 2, 2], [3, 3, 3], [3, 3, 3])]
    return video.MViT((32, 32), 4, blocks, False, False, False, False, num_classes=10, stochastic_depth_prob=0.0)


class Deformed(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.offset, self.mask = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 18, 3, padding=1), nn.Conv2d(8, 9, 3, padding=1)
        self.conv, self.head = ops.DeformConv2d(8, 16, 3, padding=1), nn.Linear(16, 10)

    def forward(self, x):
        y = torch.relu(self.enter(x))
        return self.head(torch.relu(self.conv(y, self.offset(y), torch.sigmoid(self.mask(y)))).mean((2, 3)))


class Regions(nn.Module):
    """One box of each image, pooled from its features."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(ops.Conv2dNormActivation(3, 8, stride=2), ops.Conv2dNormActivation(8, 16))
        self.head = nn.Sequential(nn.Flatten(), ops.MLP(16 * 9, [32, 10]))

    def forward(self, x, corner):
        boxes = torch.cat([torch.arange(x.size(0)).unsqueeze(1).to(x.dtype), corner * 12, 16 + corner * 12], 1)
        return self.head(ops.roi_align(self.body(x), boxes, 3, spatial_scale=0.5, sampling_ratio=2, aligned=True))


def masks():
    return nn.Sequential(mask_rcnn.MaskRCNNHeads(8, (16, 16), 1), mask_rcnn.MaskRCNNPredictor(16, 16, 3))


def joints():
    return nn.Sequential(keypoint_rcnn.KeypointRCNNHeads(8, (16, 16)), keypoint_rcnn.KeypointRCNNPredictor(16, 5))


def raft():
    return Only(optical_flow.raft_small(weights=None), lambda y: y[-1])


SMALL_IMAGE = Values((3, 64, 64))
ROWS = [
    row("efficientnet_v2", efficientnet_v2),
    row("mvit_v1", mvit_v1, CLIP),
    row("shufflenet_v2_x1_0", partial(models.shufflenet_v2_x1_0, num_classes=10)),
    row("regnet_x_800mf", partial(models.regnet_x_800mf, num_classes=10)),
    row("retina_head", lambda: Detector(retinanet.RetinaNetHead(32, 2, 3), lambda y: torch.cat([y["cls_logits"], y["bbox_regression"]], 2)), 64, Values((40, 7))),
    row("fcos_head", lambda: Detector(fcos.FCOSHead(32, 1, 3), lambda y: torch.cat([y["cls_logits"], y["bbox_regression"], y["bbox_ctrness"]], 2)), 64, Values((20, 8))),
    row("ssd_head", lambda: Detector(ssd.SSDHead([32, 32], [2, 2], 3), lambda y: torch.cat([y["cls_logits"], y["bbox_regression"]], 2)), 64, Values((40, 7))),
    row("deform_conv", Deformed, 16),
    Row("tv_regions", "torchvision", Regions, {"x": image(32), "corner": Uniform((2,))}),
    row("mask_head", masks, Values((8, 7, 7)), Values((3, 14, 14))),
    row("keypoint_head", joints, Values((8, 7, 7)), Values((5, 28, 28))),
    Row("tv_raft", "torchvision", raft, {"image1": image(128), "image2": image(128)}, Values((2, 128, 128))),
]
