"""Architectures of torchvision, narrow and shallow where its constructors let them be."""
from functools import partial

from torch import nn
from torchvision import models
from torchvision.models import convnext, densenet, inception, maxvit, resnet, segmentation, swin_transformer, vgg, video
from torchvision.models._utils import IntermediateLayerGetter
from torchvision.models.segmentation.deeplabv3 import DeepLabHead
from torchvision.models.segmentation.fcn import FCNHead

from row import Only, Row, Values, image

PIXELS = Values((64, 64), below=5)


def vgg_of(batch_norm):
    model = vgg.VGG(vgg.make_layers([8, "M", 16, "M", 32, 32, "M", 64, "M"], batch_norm), num_classes=10)
    model.avgpool = nn.AdaptiveAvgPool2d(2)
    model.classifier = nn.Sequential(nn.Linear(64 * 4, 64), nn.ReLU(True), nn.Dropout(), nn.Linear(64, 10))
    return model


def alexnet():
    model = models.alexnet(num_classes=10)
    model.avgpool = nn.AdaptiveAvgPool2d(1)
    model.classifier = nn.Sequential(nn.Dropout(), nn.Linear(256, 64), nn.ReLU(True), nn.Linear(64, 10))
    return model


def small_resnet(block, **options):
    return resnet.ResNet(block, [1, 1, 1, 1], num_classes=10, **options)


def convnext_of():
    blocks = [convnext.CNBlockConfig(16, 32, 1), convnext.CNBlockConfig(32, 64, 2), convnext.CNBlockConfig(64, None, 1)]
    return convnext.ConvNeXt(blocks, num_classes=10)


def swin_of(**options):
    return swin_transformer.SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.0, num_classes=10, **options)


def swin_v2():
    return swin_of(block=swin_transformer.SwinTransformerBlockV2, downsample_layer=swin_transformer.PatchMergingV2)


def vit():
    return models.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10)


def maxvit_of():
    return maxvit.MaxVit((64, 64), 16, 2, [16, 32], [1, 1], 8, 0.0, num_classes=10)


def backbone(layers):
    return IntermediateLayerGetter(small_resnet(resnet.BasicBlock), layers)


def fcn():
    return Only(segmentation.FCN(backbone({"layer4": "out"}), FCNHead(512, 5)), lambda y: y["out"])


def deeplab():
    net = small_resnet(resnet.Bottleneck, replace_stride_with_dilation=[False, False, True])
    return Only(segmentation.DeepLabV3(IntermediateLayerGetter(net, {"layer3": "out"}), DeepLabHead(1024, 5, (2, 4, 6))), lambda y: y["out"])


def lraspp():
    return Only(segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5), lambda y: y["out"])


def deeplab_mobile():
    return Only(segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5), lambda y: y["out"])


def mvit():
    blocks = [video.mvit.MSBlockConfig(1, 24, 24, [3, 3, 3], [3, 3, 3], [1, 1, 1], [1, 4, 4]),
              video.mvit.MSBlockConfig(2, 24, 48, [3, 3, 3], [3, 3, 3], [1, 2, 2], [1, 2, 2])]
    return video.MViT((32, 32), 4, blocks, True, True, True, True, num_classes=10, stochastic_depth_prob=0.0)


def swin3d():
    return video.SwinTransformer3d([2, 4, 4], 24, [2, 2], [2, 4], [2, 4, 4], stochastic_depth_prob=0.0, num_classes=10)


def s3d():
    model = video.S3D(num_classes=10)
    model.avgpool = nn.AdaptiveAvgPool3d(1)
    return model


def r3d(blocks):
    return video.resnet.VideoResNet(video.resnet.BasicBlock, blocks, [1, 1, 1, 1], video.resnet.BasicStem, num_classes=10)


def row(name, make, size=64, labels=None, **options):
    more = {"labels": labels} if labels is not None else {}
    return Row(f"tv_{name}", "torchvision", make, {"x": size if isinstance(size, Values) else image(size)}, **more, **options)


CLIP = Values((3, 4, 32, 32))
PLAIN = ["resnet18", "mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large", "mnasnet0_5", "shufflenet_v2_x0_5", "squeezenet1_0",
         "squeezenet1_1", "efficientnet_b0", "regnet_y_400mf", "regnet_x_400mf"]
ROWS = [row(name, partial(getattr(models, name), num_classes=10)) for name in PLAIN] + [
    row("alexnet", alexnet),
    row("vgg", partial(vgg_of, False)),
    row("vgg_bn", partial(vgg_of, True)),
    row("resnext", partial(small_resnet, resnet.Bottleneck, groups=32, width_per_group=4)),
    row("wide_resnet", partial(small_resnet, resnet.Bottleneck, width_per_group=128)),
    row("resnet_group_norm", partial(small_resnet, resnet.BasicBlock, norm_layer=partial(nn.GroupNorm, 8))),
    row("densenet", partial(densenet.DenseNet, 8, (2, 2, 2, 2), 16, num_classes=10)),
    row("googlenet", partial(models.googlenet, num_classes=10, aux_logits=False, init_weights=False)),
    row("inception_v3", partial(inception.Inception3, num_classes=10, aux_logits=False, init_weights=False), 107),
    row("convnext", convnext_of),
    row("swin", swin_of, 32),
    row("swin_v2", swin_v2, 32),
    row("vit", vit, 32),
    row("maxvit", maxvit_of),
    row("fcn", fcn, labels=PIXELS, class_axis=1),
    row("deeplabv3", deeplab, labels=PIXELS, class_axis=1),
    row("deeplabv3_mobile", deeplab_mobile, labels=PIXELS, class_axis=1),
    row("lraspp", lraspp, labels=PIXELS, class_axis=1),
    row("r3d", partial(r3d, [video.resnet.Conv3DSimple] * 4), CLIP),
    row("mc3", partial(r3d, [video.resnet.Conv3DSimple] + [video.resnet.Conv3DNoTemporal] * 3), CLIP),
    row("r2plus1d", partial(r3d, [video.resnet.Conv2Plus1D] * 4), CLIP),
    row("s3d", s3d, Values((3, 16, 64, 64))),
    row("mvit", mvit, CLIP),
    row("swin3d", swin3d, CLIP),
]
