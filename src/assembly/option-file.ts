import { readFile } from 'node:fs/promises'
import { CodedError } from '../lib/coded-error.js'

/** The text of a file that an option names. Fails with `FILE_UNREADABLE`, which names both. */
export async function readOptionFile(path: string, option: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    throw new CodedError('FILE_UNREADABLE', `${option}: cannot read ${path}`, { cause: error })
  }
}
