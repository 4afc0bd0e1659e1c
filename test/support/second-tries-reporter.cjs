/** Names at the end of a run the tests that passed only at their second try: a machine that was too busy, or a defect that is rare. */
class SecondTriesReporter {
  onRunComplete(_contexts, { testResults }) {
    const tests = testResults.flatMap((suite) => suite.testResults.filter(({ invocations, status }) => status === 'passed' && invocations > 1));
    if (tests.length === 0) return;
    process.stderr.write(`${tests.length} test(s) passed only at the second try:\n${tests.map(({ fullName }) => `  ${fullName}\n`).join('')}`);
  }
}

module.exports = SecondTriesReporter;
