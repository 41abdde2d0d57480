// The API's own description as a judge of what a server answers, and of whether all was asked.
import assert from "node:assert/strict";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { ValidateFunction } from "ajv/dist/2020.js";

type Schema = Record<string, any>;

interface Media {
  readonly schema: Schema;
}

interface Operation {
  readonly requestBody?: { readonly content: Record<string, Media> };
  readonly responses: Record<string, { content?: Record<string, Media>; $ref?: string }>;
  readonly "x-scoped"?: boolean;
}

export interface Document {
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: { schemas: Record<string, Schema>; responses: Record<string, any> };
}

/** Everything JSON that the document says, and where. */
export interface Described {
  readonly place: string;
  readonly schema: Schema;
}

const methods = ["get", "post", "put", "patch", "delete"];

export class Contract {
  readonly #document: Document;
  readonly #ajv: Ajv2020;
  readonly #judges = new Map<string, ValidateFunction>();
  readonly #walked = new Set<string>();

  constructor(document: Document) {
    this.#document = document;
    const formats = {
      "date-time": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,}Z$/,
      uri: /^https?:\/\//,
      binary: true,
    } as const;
    this.#ajv = new Ajv2020({ strict: false, allErrors: true, formats });
  }

  /** "GET /api/runs" and all others. */
  get operations(): string[] {
    return Object.entries(this.#document.paths).flatMap(([path, of]) =>
      Object.keys(of)
        .filter((method) => methods.includes(method))
        .map((method) => `${method.toUpperCase()} ${path}`),
    );
  }

  get unwalked(): string[] {
    return this.operations.filter((name) => !this.#walked.has(name));
  }

  isScoped(name: string): boolean {
    return this.#operation(name)["x-scoped"] === true;
  }

  /** Bodies of requests and answers, each once for each place. */
  get described(): Described[] {
    return this.operations.flatMap((name) => {
      const { requestBody, responses } = this.#operation(name);
      const bodies: [string, Record<string, Media>][] = Object.entries(responses).map(
        ([status, of]) => [`${name} ${status}`, this.#answerOf(of).content ?? {}],
      );
      if (requestBody) bodies.push([`${name} request`, requestBody.content]);
      return bodies.flatMap(([place, content]) => {
        const media = content["application/json"];
        return media ? [{ place, schema: this.#resolved(media.schema) }] : [];
      });
    });
  }

  /** What is sent must be what the document lets one send. */
  checkRequest(name: string, body: unknown): void {
    const content = this.#operation(name).requestBody?.content;
    assert.ok(content, `${name} takes no body`);
    const media = content["application/json"];
    if (media) this.judge(`${name} request`, media.schema, body);
  }

  checkAnswer(name: string, status: number, type: string, text: string): void {
    const of = this.#operation(name).responses[String(status)];
    assert.ok(of, `${name} answered ${status}, which is not described: ${text}`);
    const { content } = this.#answerOf(of);
    this.#walked.add(name);
    if (content === undefined) {
      assert.equal(text, "", `${name} ${status} has a body that is not described`);
      return;
    }
    const media = content[type];
    assert.ok(media, `${name} ${status} is ${type}, which is not described`);
    const place = `${name} ${status} ${type}`;
    if (type === "application/json") this.judge(place, media.schema, JSON.parse(text));
    if (type === "text/event-stream")
      for (const [, data = ""] of text.matchAll(/^data: (.*)$/gm))
        this.judge(place, media.schema.contentSchema, JSON.parse(data));
  }

  judge(place: string, schema: Schema, value: unknown): void {
    let judge = this.#judges.get(place);
    if (judge === undefined) {
      const components = { schemas: {} as Record<string, Schema> };
      for (const [name, of] of Object.entries(this.#document.components.schemas))
        components.schemas[name] = this.#closed(of);
      judge = this.#ajv.compile({ ...this.#closed(schema), components });
      this.#judges.set(place, judge);
    }
    const isRight = judge(value);
    const problems = (judge.errors ?? []).map(
      ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
    );
    assert.ok(isRight, `${place}: ${problems.join("; ")}\n${JSON.stringify(value)}`);
  }

  #operation(name: string): Operation {
    const [method = "", path = ""] = name.split(" ");
    const found = this.#document.paths[path]?.[method.toLowerCase()];
    assert.ok(found, `${name} is not described`);
    return found;
  }

  #answerOf(of: { content?: Record<string, Media>; $ref?: string }): {
    content?: Record<string, Media>;
  } {
    return of.$ref ? this.#document.components.responses[of.$ref.split("/").at(-1) as string] : of;
  }

  #resolved(schema: Schema): Schema {
    const { $ref } = schema;
    if ($ref === undefined) return schema;
    return this.#document.components.schemas[$ref.split("/").at(-1)] as Schema;
  }

  /* A member that is not described is a mistake of the document or of the server. */
  #closed(schema: any): any {
    if (Array.isArray(schema)) return schema.map((one) => this.#closed(one));
    if (schema === null || typeof schema !== "object") return schema;
    const { allOf, examples: _examples, ...rest } = schema as Schema;
    const out: Schema = Object.fromEntries(
      Object.entries(rest).map(([key, value]) => [key, this.#closed(value)]),
    );
    if (allOf) {
      /* The parts are open: only together are they the whole. */
      out.allOf = allOf.map((part: Schema) => this.#open(this.#resolved(part)));
      out.unevaluatedProperties = false;
    } else if (schema.properties && schema.type === "object") {
      out.additionalProperties ??= false;
    }
    return out;
  }

  #open(schema: Schema): Schema {
    const { additionalProperties: _closed, ...open } = this.#closed(schema) as Schema;
    return open;
  }
}
