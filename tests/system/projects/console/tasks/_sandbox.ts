import { image, sandbox } from "@helmr/sdk";

export const small = sandbox("small")
  .image(image("base").from("node:24-bookworm-slim"))
  .resources({ cpu: 1, memory: "512Mi" });
