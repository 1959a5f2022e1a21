#!/usr/bin/env python3
"""Writes pillow.json: small files of pictures with the pixels that Pillow reads from them, and checksums of Pillow's
resizing. Debian's python3-pil and python3-numpy: python3 pillow.py"""
import base64, hashlib, io, json, struct, zlib
import numpy
import PIL
from PIL import Image, ImageOps

FILTERS = [("bilinear", Image.BILINEAR), ("bicubic", Image.BICUBIC)]


def scene(width, height, channels=3):
    """Slopes, hard edges and noise; the fourth channel has clear, thick and half-clear parts."""
    random = numpy.random.default_rng(width * 1000 + height)
    y, x = numpy.mgrid[0:height, 0:width]
    planes = [x * 255 // max(width - 1, 1), y * 255 // max(height - 1, 1), (x + y) * 8 % 256, (x * 37 + y * 11) % 256]
    pixels = numpy.stack(planes[:channels], axis=-1).astype(numpy.uint8)
    pixels[height // 3 : height // 2, :, :3] = random.integers(0, 256, (height // 2 - height // 3, width, min(channels, 3)), dtype=numpy.uint8)
    pixels[height // 2 : 2 * height // 3, width // 2 :, :3] = 255
    pixels[height // 2 : 2 * height // 3, : width // 2, :3] = 0
    if channels == 4:
        pixels[: height // 4, :, 3] = 0
        pixels[height // 4 : height // 2, :, 3] = 255
    return pixels


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def read(data):
    """The picture upright, what is transparent over white."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGB", image.size, (255, 255, 255))
        white.paste(image, mask=image.getchannel("A"))
        return white
    return image.convert("RGB")


def png(pixels, depth, colour, interlaced=False, chunks=b""):
    """What Pillow does not write: 16 bits, few bits, Adam7. pixels: [height][width][channels]."""
    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    def rows(part):
        out = b""
        for row in part:
            if depth == 16:
                out += b"\0" + row.astype(">u2").tobytes()
            elif depth == 8:
                out += b"\0" + row.astype(numpy.uint8).tobytes()
            else:
                bits = numpy.unpackbits(row.astype(numpy.uint8).reshape(-1, 1), axis=1)[:, 8 - depth :]
                out += b"\0" + numpy.packbits(bits.reshape(-1)).tobytes()
        return out

    height, width = pixels.shape[:2]
    if interlaced:
        passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
        data = b"".join(rows(pixels[y::down, x::across]) for x, y, across, down in passes if pixels[y::down, x::across].size)
    else:
        data = rows(pixels)
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 1 if interlaced else 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunks + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


files = []


def add(name, data, expected=None):
    image = expected if expected is not None else read(data)
    pixels, lossy = image.tobytes(), data[:2] == b"\xff\xd8"
    entry = {"name": name, "file": base64.b64encode(data).decode(), "width": image.width, "height": image.height}
    if lossy:  # decoders round differently
        entry["pixels"] = base64.b64encode(pixels).decode()
    else:
        entry["sum"] = hashlib.sha256(pixels).hexdigest()
    files.append(entry)


rgb, rgba = Image.fromarray(scene(33, 21)), Image.fromarray(scene(33, 21, 4), "RGBA")
gray = rgb.convert("L")
smooth = Image.fromarray(numpy.asarray(rgb.resize((8, 5), Image.BOX))).resize((41, 31), Image.BICUBIC)

for name, options in [("444", {"subsampling": 0}), ("422", {"subsampling": 1}), ("420", {"subsampling": 2}),
                      ("progressive", {"subsampling": 2, "progressive": True}), ("optimized", {"optimize": True})]:
    add("jpeg " + name, saved(rgb, "JPEG", quality=90, **options))
    add("jpeg smooth " + name, saved(smooth, "JPEG", quality=95, **options))
add("jpeg gray", saved(gray, "JPEG", quality=90))
cmyk = saved(rgb.convert("CMYK"), "JPEG", quality=90)
add("jpeg cmyk", cmyk)
adobe = cmyk.index(b"Adobe")
add("jpeg ycck", cmyk[: adobe + 11] + b"\2" + cmyk[adobe + 12 :])
add("jpeg one pixel", saved(rgb.crop((5, 9, 6, 10)), "JPEG"))

add("png rgb", saved(rgb, "PNG"))
add("png rgba", saved(rgba, "PNG"))
add("png gray", saved(gray, "PNG"))
add("png gray alpha", saved(rgba.convert("LA"), "PNG"))
add("png palette", saved(rgb.quantize(200), "PNG"))
add("png palette 4 bits", saved(rgb.quantize(13), "PNG", bits=4))
add("png palette transparent", saved(rgb.quantize(16), "PNG", transparency=bytes([0, 90, 255, 128])))
add("png 1 bit", saved(gray.convert("1"), "PNG"))
add("png rgb, one colour transparent", saved(rgb, "PNG", transparency=(255, 255, 255)))
add("png rgba interlaced", png(scene(33, 21, 4), 8, 6, True))
add("png rgb interlaced, 3 columns", png(scene(3, 21), 8, 2, True))
for depth in 2, 4:
    add(f"png gray {depth} bits", png(scene(33, 21)[:, :, :1] >> (8 - depth), depth, 0))
for name, colour, channels in [("gray", 0, 1), ("rgb", 2, 3), ("rgba", 6, 4)]:
    deep = scene(33, 21, 4)[:, :, [0, 1, 2, 3][:channels]].astype(numpy.uint16) * 256 + 77
    high = (deep >> 8).astype(numpy.uint8)
    if channels == 4:
        white = Image.new("RGB", (33, 21), (255, 255, 255))
        white.paste(Image.fromarray(high, "RGBA"), mask=Image.fromarray(high, "RGBA").getchannel("A"))
    else:
        white = Image.fromarray(numpy.broadcast_to(high, (21, 33, 3)).copy())
    for interlaced in False, True:
        add(f"png {name} 16 bits" + (", interlaced" if interlaced else ""), png(deep, 16, colour, interlaced), white)

flat = rgb.quantize(64)
gif = saved(flat, "GIF")
add("gif", gif)
add("gif interlaced", saved(flat, "GIF", interlace=1))
add("gif transparent", saved(flat, "GIF", transparency=3))
add("gif animated", saved(flat, "GIF", save_all=True, append_images=[flat.transpose(Image.FLIP_LEFT_RIGHT)], duration=50))
frame = gif.index(b",\0\0\0\0")
moved = bytearray(gif)
moved[6:10] = struct.pack("<HH", 40, 30)
moved[frame + 1 : frame + 5] = struct.pack("<HH", 3, 5)
white = Image.new("RGB", (40, 30), (255, 255, 255))
white.paste(flat.convert("RGB"), (3, 5))
add("gif smaller than its screen", bytes(moved), white)

add("webp", saved(rgb, "WEBP", quality=90))
add("webp smooth", saved(smooth, "WEBP", quality=95))
add("webp alpha", saved(rgba, "WEBP", quality=90))
add("webp lossless", saved(rgb, "WEBP", lossless=True))
add("webp lossless alpha", saved(rgba, "WEBP", lossless=True, exact=True))
turned = [rgba.transpose(Image.FLIP_LEFT_RIGHT)]
add("webp animated", saved(rgba, "WEBP", save_all=True, append_images=turned, duration=50, quality=90))
add("webp animated lossless", saved(rgba, "WEBP", save_all=True, append_images=turned, duration=50, lossless=True))

add("bmp", saved(rgb, "BMP"))
add("bmp gray", saved(gray, "BMP"))
add("bmp palette", saved(rgb.quantize(50), "BMP"))
add("bmp 1 bit", saved(gray.convert("1"), "BMP"))

small = Image.fromarray(scene(7, 5))
for orientation in range(1, 9):
    exif = Image.Exif()
    exif[0x010F] = "a camera"
    exif[0x0112] = orientation
    add(f"png orientation {orientation}", saved(small, "PNG", exif=exif))
    add(f"webp orientation {orientation}", saved(small, "WEBP", lossless=True, exif=exif))
    add(f"jpeg orientation {orientation}", saved(small.resize((28, 20), Image.NEAREST), "JPEG", subsampling=0, quality=95, exif=exif))

resized = []
for width, height in [(97, 83), (1, 1), (3, 200), (128, 2)]:
    source = Image.fromarray(scene(width, height))
    sizes = [(1, 1), (2, 3), (31, 17), (64, 64), (width, 40), (53, height), (width, height), (2 * width, 2 * height), (200, 151), (449, 7)]
    for size in sizes:
        sums = {name: hashlib.sha256(source.resize(size, kind).tobytes()).hexdigest() for name, kind in FILTERS}
        resized.append({"source": [width, height], "size": size, "sums": sums})
    add(f"scene {width}x{height}", saved(source, "PNG"))

with open("pillow.json", "w") as out:
    json.dump({"by": f"Pillow {PIL.__version__}, pillow.py beside this file", "files": files, "resized": resized}, out, indent=1)
    out.write("\n")
