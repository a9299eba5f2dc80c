import { readFile } from 'node:fs/promises'
import { Command } from 'commander'
import { packageVersion } from '../lib/files.js'
import { fileReason } from '../lib/system-errors.js'
import { ExitCode } from './process.js'

const EXAMPLES = `
Examples:
  sluice upgrade --check /srv/mirror/sluice/release.json

Each build writes release.json with its version and checksums. Sluice reads the file that you name, and sends nothing anywhere.
Exit code: 0 when this version is current, 1 when the file has a newer one.`

const VERSION = /^\d{1,9}\.\d{1,9}\.\d{1,9}$/
const WITHOUT_VERSION = 'no JSON with a field "version" of the form 1.2.3'

/** Returns `sluice upgrade`, which compares the installed version with a release file of the operator. */
export function upgradeCommand(): Command {
  return new Command('upgrade')
    .description('compare this version with a release file')
    .requiredOption('--check <file>', 'release.json of the newest build')
    .addHelpText('after', EXAMPLES)
    .action(async ({ check }: { readonly check: string }) => {
      process.exitCode = await compareRelease(check)
    })
}

async function compareRelease(path: string): Promise<number> {
  let version: unknown
  try {
    version = (JSON.parse(await readFile(path, 'utf8')) as { version?: unknown } | null)?.version
  } catch (error) {
    if (!(error instanceof SyntaxError)) return refuse(path, fileReason(error))
  }
  if (typeof version !== 'string' || !VERSION.test(version)) return refuse(path, WITHOUT_VERSION)
  const own = packageVersion()
  if (version.localeCompare(own, 'en', { numeric: true }) <= 0) {
    console.log(`${own} is current: ${path} has ${version}`)
    return ExitCode.ok
  }
  console.log(
    `${version} is newer than ${own}: install it, then "sluice start --take-over" changes to it without refusing a request`
  )
  return ExitCode.failure
}

function refuse(path: string, reason: string): number {
  console.error(`error: ${path}: ${reason}`)
  return ExitCode.usage
}
