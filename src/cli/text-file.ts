import { readFile } from 'node:fs/promises'
import { CodedError } from '../lib/errors.js'
import { fileErrors } from '../lib/files.js'
import { fileReason } from '../lib/system-errors.js'

/** Reads a text file. `bytes`: its content, if it is no file. Fails with a CodedError `FILE_UNREADABLE`, also for bytes that are not UTF-8. */
export async function readTextFile(path: string, bytes: Promise<Uint8Array> = readFile(path)): Promise<string> {
  const content = await bytes.catch((error: unknown) => {
    throw new CodedError(fileErrors.FILE_UNREADABLE, `${path}: ${fileReason(error)}`)
  })
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(content)
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    throw new CodedError(fileErrors.FILE_UNREADABLE, `${path} is no UTF-8 text`)
  }
}
