// `give-back` as a name of TypeScript: `giveBack`, and `GiveBack` where it is a type; `runId` in words: `run id`.

export const camel = (name) => name.replace(/[-/](\w)/g, (_, letter) => letter.toUpperCase());
export const capital = (text) => text[0].toUpperCase() + text.slice(1);
export const spoken = (name) => name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
