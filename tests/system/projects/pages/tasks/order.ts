// Takes a payload of every kind that a form has fields for; what its JSON Schema cannot say, only it knows.
import { image, sandbox, task } from "@helmr/sdk";

const small = sandbox("small")
  .image(
    image("base")
      .from("node:24-bookworm-slim")
      .run(["sh", "-c", "echo '<img src=x onerror=window.hit=1>'; mkdir -p /srv/pages"]),
  )
  .resources({ cpu: 1, memory: "512Mi" });

interface Order {
  readonly title: string;
  readonly count: number;
  readonly address: { readonly city: string };
}

const schema = {
  type: "object",
  required: ["title", "count", "size", "address"],
  properties: {
    title: { type: "string", minLength: 3, description: "<img src=x onerror=window.hit=1>" },
    count: { type: "integer", minimum: 1, maximum: 9, default: 2 },
    rush: { type: "boolean", default: true },
    size: { enum: ["small", "large"] },
    address: {
      type: "object",
      required: ["city"],
      properties: { city: { type: "string" }, zipCode: { type: "string", pattern: "^[0-9]{5}$" } },
    },
    labels: { type: "array", items: { type: "string" } },
    extra: { type: "object" },
  },
};

const order = {
  "~standard": {
    version: 1 as const,
    vendor: "tests",
    validate: (value: unknown) =>
      (value as Order).address?.city === "Atlantis"
        ? { issues: [{ message: "has sunk", path: ["address", "city"] }] }
        : { value: value as Order },
    jsonSchema: { input: () => schema },
  },
};

export const orders = task({
  id: "orders",
  sandbox: small,
  payload: order,
  run: async (payload) => payload,
});
