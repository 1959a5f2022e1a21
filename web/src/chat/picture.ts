import type { Picture } from "./conversation";

/** Longer sides are scaled down to so many pixels: no model is shown more. */
const longestSide = 2048;

/** The largest file that is read, and the largest that stays as it is, in bytes. */
const largestFile = 64 << 20;
const largestKept = 2 << 20;

/** How files begin that the server takes. The first are photos as a rule. */
const kinds: [begin: RegExp, type: string][] = [
  [/^\xff\xd8\xff/, "image/jpeg"],
  [/^RIFF.{4}WEBP/s, "image/webp"],
  [/^\x89PNG/, "image/png"],
  [/^GIF8/, "image/gif"],
  [/^BM/, "image/bmp"],
];
const photo = "image/jpeg";
const drawing = "image/png";
const quality = 0.9;

/** Whether a file is to be seen. SVG files are texts. */
export function isPicture(file: File): boolean {
  return /^image\/(?!svg)/.test(file.type) || /\.(hei[cf]|avif|jxl|tiff?)$/i.test(file.name);
}

/** Reads a picture in any format that the browser knows. A large one becomes smaller. */
export async function readPicture(file: File): Promise<Picture> {
  const name = file.name || "picture";
  if (file.size > largestFile) throw new Error(`${name} is larger than 64 MiB. Attach a smaller picture.`);
  const head = String.fromCharCode(...new Uint8Array(await file.slice(0, 12).arrayBuffer()));
  const type = kinds.find(([begin]) => begin.test(head))?.[1];
  let bitmap: ImageBitmap;
  try {
    bitmap = await createImageBitmap(file); // upright, as its EXIF data says
  } catch {
    throw new Error(`This browser cannot read ${name} as a picture: save it as JPEG or PNG, and attach that.`);
  }
  try {
    const by = Math.min(1, longestSide / Math.max(bitmap.width, bitmap.height));
    if (type && by === 1 && file.size <= largestKept) return { name, url: await urlOf(file, type) };
    const size = (n: number) => Math.max(1, Math.round(n * by));
    const canvas = new OffscreenCanvas(size(bitmap.width), size(bitmap.height));
    const drawn = canvas.getContext("2d")!;
    const draw = () => drawn.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    drawn.imageSmoothingQuality = "high";
    draw();
    if (kinds.findIndex(([, t]) => t === type) > 1) {
      const exact = await canvas.convertToBlob({ type: drawing });
      if (exact.size <= largestKept) return { name, url: await urlOf(exact, drawing) };
    }
    drawn.fillStyle = "white"; // for JPEG has no transparency
    drawn.globalCompositeOperation = "destination-over";
    drawn.fillRect(0, 0, canvas.width, canvas.height);
    return { name, url: await urlOf(await canvas.convertToBlob({ type: photo, quality }), photo) };
  } finally {
    bitmap.close();
  }
}

function urlOf(file: Blob, type: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(new Error("The file could not be read. Attach it again."));
    reader.readAsDataURL(new Blob([file], { type }));
  });
}
