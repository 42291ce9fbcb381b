"""An ONNX file made here returns what the same layers return in torch."""

import json

import pytest
import torch
from torch import nn

from pencil.data import Image
from pencil.embed import open_encoder
from pencil.errors import ConfigError

onnx = pytest.importorskip("onnx", reason="needed to make the file")
pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
pytestmark = pytest.mark.slow

SIZE = 12


@pytest.fixture
def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 5, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 7)
    )


def save(network, path, shape=("rows", 3, SIZE, SIZE), *, last="features"):
    """The network's layers as a graph."""
    convolution, linear = network[0], network[4]
    weights = {
        "w": convolution.weight,
        "b": convolution.bias,
        "m": linear.weight.T,
        "n": linear.bias,
    }
    node = onnx.helper.make_node
    nodes = [
        node("Conv", ["images", "w", "b"], ["maps"]),
        node("Relu", ["maps"], ["active"]),
        node("GlobalAveragePool", ["active"], ["pooled"]),
        node("Flatten", ["pooled"], ["flat"]),
        node("MatMul", ["flat", "m"], ["product"]),
        node("Add", ["product", "n"], ["features"]),
    ]
    real = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes,
        "network",
        [onnx.helper.make_tensor_value_info("images", real, shape)],
        [onnx.helper.make_tensor_value_info(last, real, [None] * (4 if last == "active" else 2))],
        [
            onnx.numpy_helper.from_array(value.detach().contiguous().numpy(), name)
            for name, value in weights.items()
        ],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return f"onnx:{path}"


def rows(count=5):
    generator = torch.Generator().manual_seed(0)
    sizes = [(3, SIZE, SIZE), (3, 20, 15), (1, 9, 9), (3, 40, 12), (3, 12, 30)]
    return [
        Image(torch.randint(0, 256, size, generator=generator, dtype=torch.uint8)) for size in sizes[:count]
    ]


def test_features_equal_those_of_torch_with_imagenets_statistics(network, tmp_path):
    encoder = open_encoder(save(network, tmp_path / "net.onnx"))
    assert (encoder.takes, encoder.size) == ("images", 7)
    row = rows(1)[0]  # already of the graph's size
    mean, std = (torch.tensor(each).view(3, 1, 1) for each in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    with torch.no_grad():
        expected = network(((row.pixels / 255 - mean) / std)[None])
    torch.testing.assert_close(encoder.encode([row]), expected, atol=1e-5, rtol=1e-5)
    together = encoder.encode(rows())
    torch.testing.assert_close(
        torch.cat([encoder.encode([row]) for row in rows()]), together, atol=1e-5, rtol=1e-5
    )


def test_a_graph_for_two_rows_gets_two_at_a_time(network, tmp_path):
    free = open_encoder(save(network, tmp_path / "free.onnx"))
    fixed = open_encoder(save(network, tmp_path / "fixed.onnx", (2, 3, SIZE, SIZE)))
    torch.testing.assert_close(fixed.encode(rows()), free.encode(rows()), atol=1e-5, rtol=1e-5)
    assert fixed.mark != free.mark


def test_maps_are_averaged(network, tmp_path):
    found = open_encoder(save(network, tmp_path / "maps.onnx", last="active")).encode(rows())
    pooled = open_encoder(save(network, tmp_path / "flat.onnx", last="flat")).encode(rows())
    torch.testing.assert_close(found, pooled, atol=1e-5, rtol=1e-5)


def test_a_json_file_beside_it_has_size_and_statistics(network, tmp_path):
    name = save(network, tmp_path / "net.onnx", ("rows", 3, "height", "width"))
    with pytest.raises(
        ConfigError, match=r'no fixed size of images; write net.json beside it: \{"size": 224\}'
    ):
        open_encoder(name)
    settings = tmp_path / "net.json"
    settings.write_text(json.dumps({"size": SIZE, "image_mean": [0, 0, 0], "image_std": [1, 1, 1]}))
    encoder, row = open_encoder(name), rows(1)[0]
    with torch.no_grad():
        torch.testing.assert_close(
            encoder.encode([row]), network(row.pixels[None] / 255), atol=1e-5, rtol=1e-5
        )
    settings.write_text(json.dumps({"size": SIZE}))
    assert open_encoder(name).mark != encoder.mark
    settings.write_text("{")
    with pytest.raises(ConfigError, match=r"net\.json: .*JSON"):
        open_encoder(name)


@pytest.mark.parametrize("place", ["net.onnx.data", "weights.bin", "w" * 200, None])
def test_weights_in_files_of_their_own_are_part_of_the_mark(network, tmp_path, place):
    path = tmp_path / "net.onnx"
    whole = open_encoder(name := save(network, path))
    options = {"all_tensors_to_one_file": place is not None, "location": place, "size_threshold": 0}
    onnx.save_model(onnx.load(path), path, save_as_external_data=True, **options)
    (tmp_path / "unrelated.data").write_bytes(b"1")
    before = open_encoder(name)
    assert torch.equal(before.encode(rows()), whole.encode(rows()))
    (tmp_path / "unrelated.data").write_bytes(b"2")
    assert open_encoder(name).mark == before.mark
    weights = tmp_path / (place or "n")  # the bias of the last layer has the name n
    weights.write_bytes(bytes(weights.stat().st_size))
    assert open_encoder(name).mark != before.mark


def flattening(path, *shapes):
    """A graph without weights: its first input, flattened; the others are not used."""
    real = onnx.TensorProto.FLOAT
    inputs = [onnx.helper.make_tensor_value_info(f"input{n}", real, shape) for n, shape in enumerate(shapes)]
    output = onnx.helper.make_tensor_value_info("features", real, [None, None])
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Flatten", ["input0"], ["features"])], "flat", inputs, [output]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return f"onnx:{path}"


def test_what_is_no_image_network_is_refused(tmp_path):
    broken, image = tmp_path / "broken.onnx", ("rows", 3, SIZE, SIZE)
    broken.write_bytes(b"nothing")
    for name, message in (
        (f"onnx:{tmp_path / 'none.onnx'}", "no such file; give onnx:FILE"),
        (f"onnx:{broken}", r"cannot be loaded by onnxruntime .*; export it again"),
        (
            flattening(tmp_path / "grey.onnx", ("rows", 1, SIZE, SIZE)),
            r"takes input0 \['rows', 1, 12, 12\]; it must",
        ),
        (flattening(tmp_path / "words.onnx", ("rows", "tokens")), "it must have one input of images"),
        (flattening(tmp_path / "two.onnx", image, image), "it must have one input of images"),
    ):
        with pytest.raises(ConfigError, match=message):
            open_encoder(name)
