import { Command } from 'commander'
import { ExitCode } from './exit-code.js'
import { load } from './load.js'

const CHECK_EXAMPLES = `
Examples:
  sluice check policy.yaml
  sluice check policies/*.yaml
  sluice check --json policy.yaml | jq '.errors[].message'
  kubectl get configmap policy -o jsonpath='{.data.policy}' | sluice check -

Nothing runs and nothing is contacted. Exit code 0: every document is valid (warnings are allowed); 1: one is not.
With --json each file is one line: {"file", "ok", "errors": [{"line", "column", "path", "code", "message"}], "warnings"}.`

/** `sluice check`: says whether policy documents are valid, and where they are not. */
export function checkCommand(): Command {
  return new Command('check')
    .description('check traffic policy documents (YAML or JSON) without running them')
    .argument('<file...>', 'documents to check; "-" reads standard input')
    .option('--json', 'one JSON object per file and line, and nothing else')
    .addHelpText('after', CHECK_EXAMPLES)
    .action(async (files: string[], { json }: { json?: boolean }) => {
      const { checkFiles } = await load('./check-files.js', () => import('./check-files.js'))
      const valid = await checkFiles(files, {
        json: json === true,
        input: process.stdin,
        out: process.stdout,
        environment: process.env
      })
      process.exitCode = valid ? ExitCode.ok : ExitCode.failure
    })
}
