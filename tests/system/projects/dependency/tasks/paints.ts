import { image, sandbox, task } from "@helmr/sdk";
import colors from "picocolors";

export const paints = task({
  id: "paints",
  sandbox: sandbox("plain")
    .image(image("plain").from("node:24-bookworm-slim"))
    .resources({ cpu: 1, memory: "512Mi" }),
  run: async () => ({
    red: colors.createColors(true).red("stop"),
    from: import.meta.resolve("picocolors"),
  }),
});
