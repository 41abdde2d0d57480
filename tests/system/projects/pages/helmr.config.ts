import { defineConfig } from "@helmr/sdk";

export default defineConfig({ project: "main", dirs: ["./tasks"] });
