import { Command } from 'commander'
import { API_URL } from '../../cli/flags.js'
import type { StatusFlags } from './command-run.js'

const EXAMPLES = `
Examples:
  sluice status
  sluice status --api https://sluice.example.com --json
  sluice status --ready

Shows which sites of a running process are up, as GET /status does. It needs no key, and the option status_page: on.
Exit code 0: every site is up; 1: one is not, or the status page is off; 2: the command line is wrong.
--ready is for health checks of containers: it calls GET /readyz, by default at the address in SLUICE_API_LISTEN, and needs no option.
Exit code 0: the process accepts traffic; 1: it starts, drains or does not run.`

/** Command that shows which sites are up. */
export function statusCommand(): Command {
  return new Command('status')
    .description('show which sites are up')
    .option('--json', 'print the response of the API as JSON')
    .option('--ready', 'show only whether the process accepts traffic')
    .option('--api <url>', 'URL of the management API', API_URL)
    .addHelpText('after', EXAMPLES)
    .action(async (flags: StatusFlags & { readonly ready?: boolean }, command: Command) => {
      const { listeningApi, printReadiness, printStatus } = await import('./command-run.js')
      const isGiven = command.getOptionValueSource('api') !== 'default'
      process.exitCode =
        flags.ready === true
          ? await printReadiness(isGiven ? flags.api : listeningApi(process.env.SLUICE_API_LISTEN, flags.api))
          : await printStatus(flags)
    })
}
