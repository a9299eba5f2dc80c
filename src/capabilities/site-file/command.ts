import { Command } from 'commander'
import type { DiffFlags } from '../../cli/diff.js'
import type { RevertFlags } from '../../cli/revert.js'
import type { AdoptFlags } from './command-adopt.js'
import type { ApplyFlags } from './command-run.js'

export const API_URL = 'http://127.0.0.1:4040'

const GUARD = 'when one of these breaks, undo it: bake=30s, error-rate=+2%, refusal-rate=+5%, min-requests=50'
const WAIT = 'wait until the guard has passed or broken'

const PLAN_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice plan sites.yaml
  sluice plan sites.yaml --api https://sluice.example.com:4040
  sluice plan sites.yaml --json | jq '.changes[] | select(.change == "removed")'

Sends the site file, with the policies, certificates and secrets that it names, to a running process, which says what it
would add (+), change (~) and remove (-); nothing changes. A secret is only called changed. The process resolves { env: … }
by its own environment and opens every policy as it would to serve it, so that a file without errors here can be applied.
Exit code 0: nothing would change; 2: something would; 1: the file has errors, or the process cannot be asked.`

/** `sluice plan`: says what a site file would change in a running process. */
export function planCommand(): Command {
  return new Command('plan')
    .description('show what a site file would change in a running process')
    .argument('<site-file>', 'the file that is compared with what serves')
    .option('--api <url>', 'the management API of the process', API_URL)
    .option('--adopt <file>', 'list of records of "sluice adopt" that "apply" would remove')
    .option('--insecure-http', 'allow http:// to another machine, although keys and secrets are sent')
    .option('--json', 'one JSON object: {"file", "different", "changes", "removed", "warnings"}')
    .addHelpText('after', PLAN_EXAMPLES)
    .action(async (file: string, flags: ApplyFlags) => {
      const { planSite } = await import('./command-run.js')
      process.exitCode = await planSite(file, flags)
    })
}

const APPLY_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice apply sites.yaml
  sluice apply sites.yaml --yes --api https://sluice.example.com:4040
  sluice apply adopted/sites.yaml --adopt adopted/records.json
  sluice apply sites.yaml --yes --guard 'bake=1m, error-rate=+2%, refusal-rate=+5%' --wait

Shows what would change and asks before it does; without a terminal it needs --yes. All of the file is applied in one write,
or nothing. The process keeps it in its store, so that it serves it after a restart; the API lists what it declares and
changes none of it. Files that it names travel with it, { env: … } is resolved by the process. A process that was started
with a site file refuses another one. With --guard the process applies the file of before again by itself when a condition
breaks; --wait follows it until then, or until the bake time is over. Exit code 0: applied, or there was nothing to change;
1: it was refused, or with --wait the guard broke; 2: the command line is wrong.`

/** `sluice apply`: makes a running process serve a site file. */
export function applyCommand(): Command {
  return new Command('apply')
    .description('make a running process serve a site file')
    .argument('<site-file>', 'the file that is to serve')
    .option('--api <url>', 'the management API of the process', API_URL)
    .option('--yes', 'do not ask')
    .option('--adopt <file>', 'remove the records of this list of "sluice adopt" in the same write')
    .option('--guard <conditions>', GUARD)
    .option('--wait', WAIT)
    .option('--insecure-http', 'allow http:// to another machine, although keys and secrets are sent')
    .option('--json', 'one JSON object: {"file", "different", "changes", "removed", "warnings"}')
    .addHelpText('after', APPLY_EXAMPLES)
    .action(async (file: string, flags: ApplyFlags) => {
      const { applySite } = await import('./command-run.js')
      process.exitCode = await applySite(file, flags)
    })
}

const ADOPT_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice adopt sites
  sluice adopt sites --with-keys --data /var/lib/sluice
  sluice check sites/sites.yaml
  sluice apply sites/sites.yaml --adopt sites/records.json

Writes sites, backends, certificates, IP policies and vaults that the management API has made as a site file into a new
folder, with a file for each policy and certificate. Secrets and private keys are references to files, which --with-keys
writes, readable by you alone: no answer of the API shows them, so they are opened here with the sealing key of the store.
Without it, what must be provided is listed. What a site file cannot say is listed too, and stays in the API.
Nothing of the process changes. "sluice apply --adopt" removes those records in the write that makes the file serve.`

/** `sluice adopt`: writes what the API has made as a site file. */
export function adoptCommand(): Command {
  return new Command('adopt')
    .description('write what the management API has made as a site file')
    .argument('<folder>', 'a new folder for the file, its policies and certificates')
    .option('--api <url>', 'the management API of the process', API_URL)
    .option('--with-keys', 'write secrets and private keys too, opened with the sealing key')
    .option('--data <folder>', 'folder of the sealing key (default: ./data, or what the options say)')
    .option('--store <address>', 'the store, if it is postgres://…')
    .option('--config <file>', 'options file that names them')
    .addHelpText('after', ADOPT_EXAMPLES)
    .action(async (folder: string, flags: AdoptFlags) => {
      const { adopt } = await import('./command-adopt.js')
      process.exitCode = await adopt(folder, flags)
    })
}

const REVERT_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice revert 42 --dry-run
  sluice revert 42
  sluice revert 42 --guard 'bake=1m, error-rate=+2%' --wait

Makes the records that a revision changed what they were before it, in one write of its own, which can be reverted too. Records
come back with their ids. It is refused when a later write changed the same fields, or when the history lacks what is needed:
it keeps no secrets. GET /revisions lists revisions, "sluice diff 42" shows what one changed. With --guard the process
undoes the revert by itself when a condition breaks. Exit code 0: done; 1: refused, or with --wait the guard broke; 2: the
command line is wrong.`

/** `sluice revert`: undoes a revision of a running process. */
export function revertCommand(): Command {
  return new Command('revert')
    .description('undo a revision of a running process')
    .argument('<revision>', 'its number')
    .option('--api <url>', 'the management API of the process', API_URL)
    .option('--dry-run', 'only show what would change')
    .option('--force', 'do it although it shuts you out of the API')
    .option('--guard <conditions>', GUARD)
    .option('--wait', WAIT)
    .option('--insecure-http', 'allow http:// to another machine, although a key is sent')
    .option('--json', 'the answer of the API')
    .addHelpText('after', REVERT_EXAMPLES)
    .action(async (revision: string, flags: RevertFlags) => {
      const { revert } = await import('../../cli/revert.js')
      process.exitCode = await revert(revision, flags)
    })
}

const DIFF_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice diff 42
  sluice diff 42 --from 30
  sluice diff 30 --from 42 --json

Shows what revision 42 changed: records that it created (+), updated (~) and deleted (-), each value before → after, and policies
and other texts of several lines as a unified diff. With --from it compares two revisions, in either order; 0 is the empty
account. Secrets are only called changed. Members see the fields of records that they may read. Exit code 0: done; 1: refused,
such as a revision that the history no longer keeps; 2: the command line is wrong.`

/** `sluice diff`: shows what a revision of a running process changed, or how two differ. */
export function diffCommand(): Command {
  return new Command('diff')
    .description('show what a revision of a running process changed')
    .argument('<revision>', 'its number')
    .option('--from <revision>', 'compare with this revision (default: the one before)')
    .option('--api <url>', 'the management API of the process', API_URL)
    .option('--insecure-http', 'allow http:// to another machine, although a key is sent')
    .option('--json', 'the answer of the API')
    .addHelpText('after', DIFF_EXAMPLES)
    .action(async (revision: string, flags: DiffFlags) => {
      const { diff } = await import('../../cli/diff.js')
      process.exitCode = await diff(revision, flags)
    })
}
