import { readFileSync, readlinkSync } from 'node:fs'
import { codeOf } from './errors.js'

/** Which field of proc(5)'s stat says since when a process runs, counted from the first one behind the name of its program. */
const STARTED = 19
/** What the system says of a process that it does not have. */
const GONE = ['ENOENT', 'ESRCH']

/**
 * A name for this process that no other one has: the machine since it was started last, the name space of process numbers, the number, and
 * when the process began. Undefined where the system does not tell (other systems than Linux).
 */
export function processName(): string | undefined {
  try {
    return `${machine()}/${process.pid}/${startOf(process.pid)}`
  } catch {
    return undefined
  }
}

/** Is it certain that the process with this name has ended? It is not of a process of another machine or container. */
export function processHasEnded(name: string): boolean {
  const [boot, space, pid, started] = name.split('/')
  try {
    if (`${boot}/${space}` !== machine()) return false
  } catch {
    return false
  }
  try {
    return startOf(Number(pid)) !== started
  } catch (error) {
    return GONE.includes(codeOf(error) ?? '')
  }
}

function machine(): string {
  return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}/${readlinkSync('/proc/self/ns/pid')}`
}

function startOf(pid: number): string {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  // The name may hold anything; the last parenthesis ends it.
  const state = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  // One that has ended and that its parent has not asked about yet is still there.
  return state[0] === 'Z' ? '' : (state[STARTED] ?? '')
}
