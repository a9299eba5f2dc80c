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
  const version = await readVersion(path)
  const own = packageVersion()
  if (typeof version === 'object') {
    console.error(`error: ${path}: ${version.reason}`)
    return ExitCode.usage
  }
  if (!isNewer(version, own)) {
    console.log(`${own} is current: ${path} has ${version}`)
    return ExitCode.ok
  }
  console.log(
    `${version} is newer than ${own}: install it, then "sluice start --take-over" changes to it without refusing a request`
  )
  return ExitCode.failure
}

async function readVersion(path: string): Promise<string | { readonly reason: string }> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    return { reason: fileReason(error) }
  }
  const version = versionIn(text)
  return version ?? { reason: 'no JSON with a field "version" of the form 1.2.3' }
}

function versionIn(text: string): string | undefined {
  try {
    const { version } = JSON.parse(text) as { version?: unknown }
    return typeof version === 'string' && /^\d{1,9}\.\d{1,9}\.\d{1,9}$/.test(version) ? version : undefined
  } catch {
    return undefined
  }
}

/** Compares versions of the form 1.2.3 by their numbers. */
function isNewer(version: string, than: string): boolean {
  const [left, right] = [version, than].map((text) => text.split('.').map(Number))
  const at = [0, 1, 2].find((index) => left?.[index] !== right?.[index])
  return at !== undefined && (left?.[at] ?? 0) > (right?.[at] ?? 0)
}
