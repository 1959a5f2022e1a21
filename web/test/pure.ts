// What the page does with conversations without a browser.
export * from "../src/chat/check";
export * from "../src/chat/conversation";
export * from "../src/chat/imports";
export * from "../src/chat/merge";
