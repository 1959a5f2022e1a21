declare module "*.css";

/** Temml from its sources, which its package has no types for. */
declare module "temml/temml.js" {
  export { default } from "temml";
}
