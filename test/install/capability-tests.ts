/** For each capability a compiled test that starts the product as a process, so that it can start the executable. */
export const CAPABILITY_TESTS: Readonly<Record<string, string>> = {
  certificates: 'dist-test/test/capabilities/certificates/kill.full.test.js',
  'cluster-limits': 'dist-test/test/cli/cluster-limits.full.test.js',
  events: 'dist-test/test/capabilities/events/files.full.test.js',
  explain: 'dist-test/test/capabilities/explain/command.full.test.js',
  guard: 'dist-test/test/capabilities/guard/command.full.test.js',
  import: 'dist-test/test/capabilities/import/proof.full.test.js',
  limits: 'dist-test/test/capabilities/limits/command.full.test.js',
  'policy-tests': 'dist-test/test/capabilities/policy-tests/policy-tests.full.test.js',
  recorder: 'dist-test/test/capabilities/recorder/command-log.full.test.js',
  shadow: 'dist-test/test/capabilities/shadow/command.full.test.js',
  'site-file': 'dist-test/test/capabilities/site-file/site-file.full.test.js',
  status: 'dist-test/test/capabilities/status/command.full.test.js',
  'take-over': 'dist-test/test/capabilities/take-over/take-over.full.test.js',
  transfer: 'dist-test/test/capabilities/transfer/import.full.test.js',
  tunnel: 'dist-test/test/capabilities/tunnel/agents/take-over.full.test.js',
  waf: 'dist-test/test/capabilities/waf/tuning.full.test.js',
  workers: 'dist-test/test/capabilities/workers/command.full.test.js'
}
/** They have no command, thread or file of their own: code that runs in the executable as it does without. */
export const IN_EACH_START: readonly string[] = ['traces']
