import { Command } from 'commander'
import { API_URL } from '../../cli/flags.js'
import type { RevertFlags } from './command-revert.js'

/** Adds the flags of a write with a guard to a command. */
export function withGuard(command: Command): Command {
  return command
    .option(
      '--guard <conditions>',
      'roll back automatically if traffic gets worse: bake=30s, error-rate=+2%, refusal-rate=+5%, min-requests=50'
    )
    .option('--wait', 'wait for the result of the guard')
}

const REVERT_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice revert 42 --dry-run
  sluice revert 42
  sluice revert 42 --guard 'bake=1m, error-rate=+2%' --wait

Restores the records that a revision changed, with their ids. The revert is a new revision and can be reverted, too. It is refused
if a later revision changed the same fields, or if a secret would have to come back: the history has no secrets.
GET /revisions lists revisions, "sluice diff 42" shows one. With --guard the process undoes the revert if a condition breaks.
Exit code 0: done; 1: refused, or the guard broke; 2: the command line is wrong.`

/** `sluice revert`: undoes a revision of a running process. */
export function revertCommand(): Command {
  return withGuard(
    new Command('revert')
      .description('undo one configuration change (revision)')
      .argument('<revision>', 'number of the revision')
      .option('--api <url>', 'URL of the management API', API_URL)
      .option('--dry-run', 'show the changes without making them')
      .option('--force', 'revert even if you lose access to the API')
  )
    .option('--insecure-http', 'allow http:// to another machine (sends the API key in clear text)')
    .option('--json', 'print the response of the API as JSON')
    .addHelpText('after', REVERT_EXAMPLES)
    .action(async (revision: string, flags: RevertFlags) => {
      const { revert } = await import('./command-revert.js')
      process.exitCode = await revert(revision, flags)
    })
}
