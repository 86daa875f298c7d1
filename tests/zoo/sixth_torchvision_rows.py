"""Parts and architectures of torchvision of a sixth sample, chosen before anything of it was exported."""
import torch
from torch import nn
from torchvision import models, ops
from torchvision.models.detection import faster_rcnn, rpn

from row import Values
from third_torchvision_rows import Detector
from torchvision_rows import row


class Frozen(nn.Module):
    """A detector's body: normalizations that do not learn, a pyramid, and two levels above it."""

    def __init__(self):
        super().__init__()
        resnet = models.resnet18(norm_layer=ops.FrozenBatchNorm2d)
        self.stem = nn.Sequential(resnet.conv1, resnet.bn1, resnet.relu, resnet.maxpool, resnet.layer1)
        self.layers = nn.ModuleList([resnet.layer2, resnet.layer3, resnet.layer4])
        self.pyramid = ops.FeaturePyramidNetwork([128, 256, 512], 16, extra_blocks=ops.feature_pyramid_network.LastLevelP6P7(512, 16))
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x, kept = self.stem(x), {}
        for i, layer in enumerate(self.layers):
            x = layer(x)
            kept[str(i)] = x
        return self.head(sum(level.mean((2, 3)) for level in self.pyramid(kept).values()))


ROWS = [
    row("rpn_head", lambda: Detector(rpn.RPNHead(32, 2), lambda y: torch.cat([z.flatten(2).transpose(1, 2) for z in (y[0][0], y[1][0])], 2)), 64, Values((16, 10))),
    row("box_head", lambda: nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), faster_rcnn.FastRCNNConvFCHead((8, 8, 8), [12, 12], [32], nn.BatchNorm2d), nn.Linear(32, 10)), 16),
    row("frozen_pyramid", Frozen, 64, rate=0.001),
]
