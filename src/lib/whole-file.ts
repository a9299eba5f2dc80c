import { randomBytes } from 'node:crypto'
import { link, open, readFile, rename, stat, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { codeOf } from './coded-error.js'

/** For the eyes of the owner alone. */
const PRIVATE = 0o600
const FOR_OTHERS = 0o077

/**
 * Makes a file that only its owner may read, unless there is one: of two processes that make it, one wins. Nobody sees
 * half of it, and it outlives a power failure. Fails with the system's error.
 */
export async function createFile(path: string, content: string | Uint8Array): Promise<void> {
  await beside(path, content, PRIVATE, async (written) => {
    try {
      await link(written, path)
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error
    }
    await unlink(written)
  })
}

/** What a file is to hold; what comes piece by piece is written so. */
export type FileContent = string | Uint8Array | AsyncIterable<Uint8Array>

/**
 * Puts a file in the place of what is there, as a whole: a reader, or a crash, finds the old or the new. Fails with the
 * system's error, or as the content does.
 */
export async function replaceFile(path: string, content: FileContent, mode = PRIVATE): Promise<void> {
  await beside(path, content, mode, (written) => rename(written, path))
}

/** The content of a file that only its owner may read; undefined when there is none, `exposed` when others may read it too. */
export async function readPrivateFile(path: string): Promise<Buffer | 'exposed' | undefined> {
  try {
    const { mode } = await stat(path)
    return (mode & FOR_OTHERS) === 0 ? await readFile(path) : 'exposed'
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** A name in a folder outlives a power failure only when the folder is on the disk too. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function beside(
  path: string,
  content: FileContent,
  mode: number,
  move: (written: string) => Promise<void>
): Promise<void> {
  const written = `${path}.${randomBytes(6).toString('hex')}`
  const handle = await open(written, 'wx', mode)
  try {
    // The mode of `open` is what the process's mask leaves of it.
    await handle.chmod(mode)
    if (typeof content === 'string' || content instanceof Uint8Array) await handle.writeFile(content)
    // From where the piece before has ended.
    else for await (const piece of content) await handle.writeFile(piece)
    await handle.sync()
    await handle.close()
    await move(written)
  } catch (error) {
    await handle.close()
    await unlink(written)
    throw error
  }
  await syncFolder(dirname(path))
}
