import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { hashPassword } from '../lib/password-hash.js'
import { ExitCode } from './process.js'

/** Source of a password, possibly a terminal. */
type Input = NodeJS.ReadableStream & { readonly isTTY?: boolean }

/** Reads a password, from a terminal without showing it, and prints its hash; resolves with the exit code. */
export async function printPasswordHash(
  format: 'argon2id' | 'bcrypt',
  input: Input = process.stdin,
  out: { write(text: string): unknown } = process.stdout
): Promise<number> {
  const password = input.isTTY === true ? await typed(input) : (await text(input)).replace(/\r?\n$/, '')
  if (password === undefined) return failed('the two passwords differ')
  if (password === '') return failed('standard input is empty')
  if (/[\r\n]/.test(password)) return failed('standard input has more than one line')
  try {
    out.write(`${await hashPassword(password, format)}\n`)
    return ExitCode.ok
  } catch (error) {
    if (error instanceof RangeError) return failed(error.message)
    throw error
  }
}

/** Reads a password twice; undefined if the two are different. */
async function typed(input: Input): Promise<string | undefined> {
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input, output: silent, terminal: true })
  try {
    process.stderr.write('Password: ')
    const first = await lines.question('')
    process.stderr.write('\nOnce more: ')
    const second = await lines.question('')
    process.stderr.write('\n')
    return first === second ? first : undefined
  } finally {
    lines.close()
  }
}

function failed(reason: string): number {
  console.error(`no hash was made: ${reason}`)
  return ExitCode.failure
}
