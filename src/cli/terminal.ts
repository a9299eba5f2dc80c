import { createInterface } from 'node:readline/promises'
import { commandErrors } from '../app/errors.js'
import { transferErrors } from '../control/transfer/document.js'
import { CodedError } from '../lib/errors.js'

const INTERRUPT = '\u0003'
const END = ['\r', '\n', '\u0004']
const BACK = ['\u007f', '\b']

/**
 * The passphrase of the environment, or what the user types at the terminal, which is not shown. `again` asks twice.
 * Fails with a CodedError `PASSPHRASE_MISSING` (no terminal) or `PASSPHRASE_WRONG` (the second is another).
 */
export async function passphrase({ again }: { readonly again: boolean }): Promise<string> {
  const given = process.env.SLUICE_PASSPHRASE ?? ''
  if (given !== '') return given
  if (!process.stdin.isTTY) {
    throw new CodedError(
      commandErrors.PASSPHRASE_MISSING,
      'there is no terminal to ask for the passphrase: set SLUICE_PASSPHRASE'
    )
  }
  const first = await hidden('Passphrase: ')
  if (again && (await hidden('Once more: ')) !== first) {
    throw new CodedError(transferErrors.PASSPHRASE_WRONG, 'the two passphrases differ')
  }
  return first
}

/** Asks the user at the terminal for yes or no; undefined when input is no terminal. */
export async function confirmed(question: string): Promise<boolean | undefined> {
  if (!process.stdin.isTTY) return undefined
  const reader = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return /^y(es)?$/i.test((await reader.question(`${question} [y/N] `)).trim())
  } finally {
    reader.close()
  }
}

/** One line without echo. */
function hidden(prompt: string): Promise<string> {
  const { stdin, stderr } = process
  stderr.write(prompt)
  stdin.setRawMode(true)
  stdin.setEncoding('utf8')
  stdin.resume()
  return new Promise((resolve, reject) => {
    let text = ''
    const end = (settle: () => void) => {
      stdin.off('data', take)
      stdin.setRawMode(false)
      stdin.pause()
      stderr.write('\n')
      settle()
    }
    const take = (typed: string) => {
      for (const character of typed) {
        if (character === INTERRUPT) return end(() => reject(new CodedError(commandErrors.INTERRUPTED, 'interrupted')))
        if (END.includes(character)) return end(() => resolve(text))
        text = BACK.includes(character) ? text.slice(0, -1) : text + character
      }
    }
    stdin.on('data', take)
  })
}
