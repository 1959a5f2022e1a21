import { isFlag, stored } from "./stored";

/** Whether the neurons are shown beside the chat, or in its place where there is no room. */
export const neuronsOpen = stored("neurons", false, isFlag, false);
