import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmdirSync, unlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

interface Test {
  teardown(run: () => unknown): void
}

const SIZE = 4 * 2 ** 20
const ROOT = process.getuid?.() === 0

/** Does a command work here? Otherwise why not, as a reason to skip a test. */
export function lacks(command: string, words: readonly string[]): string | false {
  try {
    execFileSync(command, words, { stdio: 'ignore' })
    return false
  } catch {
    return `${command} does not work here`
  }
}

/** Why no small disk can be mounted here; false: it can. */
export function noSmallDisk(): string | false {
  if (!ROOT) return 'only root mounts a small disk'
  const probe = mkdtempSync(join(tmpdir(), 'sluice-mount-'))
  const lacking = lacks('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', probe])
  if (lacking === false) execFileSync('umount', [probe])
  rmdirSync(probe)
  return lacking
}

/** Temporary files that outlive a restart, so they lie on a disk: a file in memory that is open can be written although it is immutable. */
export const ON_DISK = '/var/tmp'

/** Why files cannot be made immutable there; false: they can. */
export function noImmutableFiles(): string | false {
  if (!ROOT) return 'only root makes a file immutable'
  const probe = join(ON_DISK, `sluice-immutable-${process.pid}`)
  writeFileSync(probe, '')
  const lacking = lacks('chattr', ['+i', probe])
  if (lacking === false) execFileSync('chattr', ['-i', probe])
  unlinkSync(probe)
  return lacking
}

/** A disk of four megabytes on one folder. */
export class SmallDisk {
  readonly folder: string

  private constructor(folder: string) {
    this.folder = folder
  }

  /** Mounts it on a new folder of this path; it goes with the test. Fails where `noSmallDisk` says why. */
  static mount(t: Test, folder: string): SmallDisk {
    mkdirSync(folder)
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE},mode=700`, 'tmpfs', folder])
    t.teardown(() => execFileSync('umount', ['--lazy', folder]))
    return new SmallDisk(folder)
  }

  /** Takes every page that is free. */
  fill(): void {
    for (let free = SIZE; free > 0; free -= 4096) {
      try {
        writeFileSync(this.#filler, Buffer.alloc(free))
        return
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      }
    }
  }

  /** Frees what `fill` took. */
  empty(): void {
    unlinkSync(this.#filler)
  }

  readOnly(): void {
    execFileSync('mount', ['-o', 'remount,ro', this.folder])
  }

  writable(): void {
    execFileSync('mount', ['-o', 'remount,rw', this.folder])
  }

  get #filler(): string {
    return join(this.folder, 'filler')
  }
}
