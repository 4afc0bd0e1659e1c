// Mutants of `npm run mutation` that nothing can notice, each with its reason: the file, a part of the line, the reason, and, where
// not every mutant of the line is meant, what is changed and what stands there instead.
const list = [
];

export const equivalent = list.map(([file, line, why, from, to]) => ({ file, line, why, from, to }));
