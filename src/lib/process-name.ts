import { readFileSync, readlinkSync } from 'node:fs'
import { codeOf } from './errors.js'

/** Field of proc(5)'s stat with the start time, counted from the first one after the program name. */
const STARTED = 19
/** System errors for a process that does not exist. */
const GONE = ['ENOENT', 'ESRCH']

/**
 * Returns a unique name of this process: the machine's boot id, the PID namespace, the PID and the start time. Undefined on systems other
 * than Linux.
 */
export function processName(): string | undefined {
  try {
    return `${machine()}/${process.pid}/${startOf(process.pid)}`
  } catch {
    return undefined
  }
}

/** Returns whether the process with this name has certainly ended; false for processes of another machine or container. */
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
  // The name may contain any character; the last parenthesis ends it.
  const state = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  // An ended process remains as a zombie until its parent has waited for it.
  return state[0] === 'Z' ? '' : (state[STARTED] ?? '')
}
