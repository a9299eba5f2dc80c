import { Command } from 'commander'
import { API_URL } from '../../cli/flags.js'

const EXAMPLES = `
Examples:
  sluice status
  sluice status --api https://sluice.example.com --json

Shows which sites of a running process are up, as GET /status does. It needs no key, and the option status_page: on.
Exit code 0: every site is up; 1: one is not, or the status page is off; 2: the command line is wrong.`

/** Command that shows which sites are up. */
export function statusCommand(): Command {
  return new Command('status')
    .description('show which sites are up')
    .option('--json', 'print the response of the API as JSON')
    .option('--api <url>', 'URL of the management API', API_URL)
    .addHelpText('after', EXAMPLES)
    .action(async (flags) => {
      const { printStatus } = await import('./command-run.js')
      process.exitCode = await printStatus(flags)
    })
}
