import { createKey, listKeys, revokeKey } from '../control/operator-keys.js'
import { systemClock } from '../lib/clock.js'
import { formatOptionProblem } from '../options/catalogue.js'
import { loadOptions } from '../options/load.js'
import { IN_MEMORY } from '../options/values.js'
import { failureText } from './failure.js'
import { ExitCode } from './process.js'

interface KeyFlags {
  readonly data?: string
  readonly config?: string
}

/** Makes a key and prints it; resolves with the exit code. */
export async function createApiKey(flags: KeyFlags, name: string | undefined): Promise<number> {
  return await inFolder(flags, 'no key was made', async (folder) => {
    console.log(await createKey(folder, systemClock, name))
  })
}

/** Prints id, time and name of each key, and never a key; resolves with the exit code. */
export async function listApiKeys(flags: KeyFlags, json: boolean): Promise<number> {
  return await inFolder(flags, 'no key is listed', async (folder) => {
    const keys = await listKeys(folder)
    if (json) for (const key of keys) console.log(JSON.stringify(key))
    else if (keys.length === 0) console.error(`${folder} has no key: the next start creates one and prints it`)
    else {
      for (const { id, created_at, name, used } of keys) {
        console.log([id, created_at, name ?? '-', ...(used ? [] : ['(not used yet: each start prints it)'])].join('  '))
      }
    }
  })
}

/** Takes keys back; resolves with the exit code. */
export async function revokeApiKeys(flags: KeyFlags, ids: readonly string[]): Promise<number> {
  return await inFolder(flags, 'no more keys were revoked', async (folder) => {
    for (const id of ids) {
      const left = await revokeKey(folder, id)
      console.log(`${id} is revoked`)
      if (left === 0) console.error(`${folder} has no key left: the next start creates one and prints it`)
    }
  })
}

async function inFolder(
  { data, config }: KeyFlags,
  failed: string,
  run: (folder: string) => Promise<void>
): Promise<number> {
  const loaded = await loadOptions({
    flags: data === undefined ? [] : [{ flag: '--data', option: 'data', text: data }],
    environment: process.env,
    folder: process.cwd(),
    ...(config === undefined ? {} : { config })
  })
  if (!loaded.ok) {
    for (const problem of loaded.problems) console.error(formatOptionProblem(problem))
    return ExitCode.usage
  }
  const folder = loaded.options.data
  if (folder === IN_MEMORY) {
    console.error('data is :memory:, so a key made here would be known to no other process; set SLUICE_API_KEY instead')
    return ExitCode.usage
  }
  try {
    await run(folder)
    return ExitCode.ok
  } catch (error) {
    console.error(`${failed} in ${folder}: ${failureText(error)}`)
    return ExitCode.failure
  }
}
