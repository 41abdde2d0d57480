import { defineConfig } from "@helmr/sdk";

export default defineConfig({
  project: "human-in-the-loop",
  dirs: ["./tasks"],
});
