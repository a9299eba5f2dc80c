import { setTimeout as pause } from 'node:timers/promises'
import { type ApiAccess, type ApiAnswer, askApi, unusable } from '../../cli/api-client.js'
import { ExitCode } from '../../cli/process.js'
import { ControlError } from '../../control/errors.js'
import { isObject } from '../../lib/json.js'
import { printable } from '../../lib/printable.js'
import { readGuard } from './conditions.js'

/** Options of commands that write with a guard. */
interface GuardFlags {
  readonly guard?: string
  readonly wait?: boolean
}

/** Interval between checks of a guard that bakes (ms). */
const LOOK = 500

/** Returns the error in the options, or undefined if they are valid. */
export function wrongGuard({ guard, wait }: GuardFlags): string | undefined {
  if (guard === undefined) return wait === true ? '--wait needs --guard' : undefined
  try {
    readGuard(guard)
    return undefined
  } catch (error) {
    if (error instanceof ControlError) return `--guard: ${error.message}`
    throw error
  }
}

/** The header of a write with these options. */
export function guardHeader({ guard }: GuardFlags): Readonly<Record<string, string>> {
  return guard === undefined ? {} : { guard }
}

/** Returns the served revision in a response: after a write, its revision. */
export function revisionOf({ headers }: ApiAnswer): number {
  return Number(headers.get('service-revision'))
}

/** Waits until the guard of a revision has ended and prints how. Resolves with the exit code. Fails with `API_UNUSABLE`. */
export async function guardEnd(access: ApiAccess, revision: number): Promise<number> {
  for (;;) {
    const { status, body } = await askApi(access, `/revisions/${revision}`)
    if (status !== 200) throw unusable(access, `no longer has revision ${revision}`)
    const { guard } = body
    // The write changed nothing that a guard could watch.
    if (!isObject(guard)) return ExitCode.ok
    const { state, reason, by } = guard
    if (state !== 'baking') {
      const why = typeof reason === 'string' ? `: ${reason}` : ''
      const undone = state === 'broken' && isObject(by) ? ` (reverted by revision ${by.id})` : ''
      const line = printable(`revision ${revision}: its guard is ${state}${why}${undone}`)
      process.stderr.write(`${line}\n`)
      return state === 'broken' || state === 'conflict' ? ExitCode.failure : ExitCode.ok
    }
    await pause(LOOK)
  }
}
