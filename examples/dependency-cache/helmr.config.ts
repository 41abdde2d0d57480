import { defineConfig } from "@helmr/sdk";

export default defineConfig({
  project: "dependency-cache",
  dirs: ["./tasks"],
});
