import { parseArgs } from 'node:util';

/** The options of a command. `--help` prints `usage` and ends the command; an option that it does not have ends it with one line. */
export function optionsOf(usage, options) {
  let values;
  try {
    ({ values } = parseArgs({ options: { ...options, help: { type: 'boolean', default: false } } }));
  } catch (error) {
    console.error(`${error.message.split('. ')[0]}. See --help.`);
    process.exit(1);
  }
  if (!values.help) return values;
  console.log(usage);
  process.exit(0);
}
