import { exportAccount } from '../control/transfer/export-account.js'
import { newPassphraseKey } from '../control/transfer/passphrase.js'
import { systemClock } from '../lib/clock.js'
import { replaceFile } from '../lib/files.js'
import { explained, openPlace, type StoreFlags, sealerOf, storePlace, transferOptions } from './account-store.js'
import { accountText } from './account-yaml.js'
import { ExitCode } from './exit-code.js'
import { passphrase } from './terminal.js'

/** Writes the account to a file, or to standard output; resolves with the exit code. */
export async function exportTo(flags: StoreFlags, withSecrets: boolean, output: string | undefined): Promise<number> {
  const place = await storePlace(flags)
  if (place === undefined) return ExitCode.usage
  try {
    const secrets = withSecrets ? await newPassphraseKey(await passphrase({ again: true })) : undefined
    const store = await openPlace(place, { make: false })
    let text: string
    try {
      const options = transferOptions(place, await sealerOf(place, store))
      const sealing = secrets === undefined ? {} : { secrets }
      text = accountText(await exportAccount(store, systemClock, { ...options, ...sealing }))
    } finally {
      await store.close()
    }
    if (output === undefined) await print(text)
    else await replaceFile(output, text)
    return ExitCode.ok
  } catch (error) {
    return explained(error, 'nothing was exported')
  }
}

/** Waits for a slow reader: the process does not. */
function print(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => (error == null ? resolve() : reject(error)))
  })
}
