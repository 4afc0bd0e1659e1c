// `give-back` as a name of TypeScript: `giveBack`, and `GiveBack` where it is a type.

export const camel = (name) => name.replace(/[-/](\w)/g, (_, letter) => letter.toUpperCase());
export const capital = (text) => text[0].toUpperCase() + text.slice(1);
