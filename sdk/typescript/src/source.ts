import { brand, hasBrand } from "./brand.js";
import { list, record, refuse, text } from "./check.js";
import { name } from "./names.js";
import { sourcePath } from "./paths.js";

export interface SourceFileRef {
  readonly path: string;
}

export interface SourceDirRef {
  readonly path: string;
  readonly ignore: readonly string[];
}

export interface CacheRef {
  readonly id: string;
}

/** A directory that outlives a build step, shared by every image of the project that names it. */
export function cache(id: string): CacheRef {
  return Object.freeze(brand({ id: name("cache id", id, "id") }, "CacheRef"));
}

export const source = Object.freeze({
  file(path: string): SourceFileRef {
    const inside = sourcePath("source.file path", path);
    if (inside === ".") refuse("source.file path", "must name a file, not the project's root");
    return Object.freeze(brand({ path: inside }, "SourceFileRef"));
  },

  directory(path: string, options: { ignore?: string[] } = {}): SourceDirRef {
    record("source.directory options", options, ["ignore"]);
    const ignore = list("source.directory ignore", options.ignore ?? []).map((glob, i) =>
      text(`source.directory ignore[${i}]`, glob),
    );
    const inside = sourcePath("source.directory path", path);
    return Object.freeze(brand({ path: inside, ignore: Object.freeze(ignore) }, "SourceDirRef"));
  },
});

export const isCacheRef = (value: unknown): value is CacheRef => hasBrand(value, "CacheRef");
export const isSourceFileRef = (value: unknown): value is SourceFileRef =>
  hasBrand(value, "SourceFileRef");
export const isSourceDirRef = (value: unknown): value is SourceDirRef =>
  hasBrand(value, "SourceDirRef");
