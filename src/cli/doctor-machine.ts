import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { readFile, stat, statfs } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { dataFolderProblem } from '../app/data-folder.js'
import { CountersOfLimits } from '../app/kept-counters.js'
import { firewallRules } from '../app/server-services.js'
import { CodedError, codeOf } from '../lib/errors.js'
import { formatAuthority } from '../lib/host.js'
import { portPermission, systemReason } from '../lib/system-errors.js'
import { formatSize } from '../lib/units.js'
import { opensListen } from '../options/catalogue.js'
import type { Options } from '../options/options.js'
import { IN_MEMORY, type ListenAddress } from '../options/values.js'
import { doubtful, type Finding, fine, wrong, wrongBy } from './doctor-finding.js'

const MIB = 2 ** 20
/** Below the first a store soon cannot grow; below the second there is time to act. */
const ROOM = { least: 64 * MIB, comfortable: 1024 * MIB }

/** The release of Node; older ones do not come this far. */
export function checkNode(version: string): Finding {
  const major = Number(version.split('.')[0])
  if (major >= 22 && major % 2 === 0) return fine('node', `Node ${version}`)
  const help = 'use Node 22, 24 or 26'
  return doubtful('node', `Node ${version} works, but its support ends soon`, help)
}

/** Checks the data folder. */
export async function checkData({ data }: Pick<Options, 'data'>): Promise<Finding[]> {
  if (data === IN_MEMORY) {
    return [doubtful('data', 'data is :memory:, so a restart loses all records', 'name a folder with --data')]
  }
  const problem = await dataFolderProblem(data)
  if (problem !== undefined) return [wrongBy('data', problem.text, 'name another folder with --data')]
  const found = await stat(data).catch(() => undefined)
  if (found === undefined) return [fine('data', `${data} is not there yet; a start makes it`)]
  const findings: Finding[] = []
  if ((found.mode & 0o077) !== 0) {
    const mode = (found.mode & 0o777).toString(8)
    findings.push(doubtful('data', `other users can read ${data} (mode ${mode})`, `chmod 700 ${data}`))
  }
  const { bavail, bsize } = await statfs(data)
  const free = bavail * bsize
  const left = `${formatSize(Math.floor(free / MIB) * MIB)} are free on the disk of ${data}`
  if (free < ROOM.least) findings.push(wrong('data', left, 'free disk space, or move the folder to a larger disk'))
  else if (free < ROOM.comfortable) findings.push(doubtful('data', left, 'free disk space soon'))
  return findings.length > 0 ? findings : [fine('data', `${data} can be written; ${left}`)]
}

/** Checks the addresses to listen on. `running`: a process of Sluice responds at the address of the API. `own`: listeners of the site file. */
export async function checkPorts(
  options: Options,
  running: boolean,
  own: readonly ListenAddress[] = []
): Promise<Finding[]> {
  const { listen, api, agents, listeners, dns } = options
  const places: [option: string, at: ListenAddress | undefined, kind: 'tcp' | 'udp'][] = [
    ['listen', opensListen(options, own.length) ? listen : undefined, 'tcp'],
    ...own.map((at): [string, ListenAddress, 'tcp'] => ['site file', at, 'tcp']),
    ['api.listen', api.listen, 'tcp'],
    ['agents', agents, 'tcp'],
    ...listeners.map(({ listen: at }, index): [string, ListenAddress, 'tcp'] => [`listeners[${index}]`, at, 'tcp']),
    ['dns.listen', dns.listen, 'udp']
  ]
  const findings: Finding[] = []
  for (const [option, at, kind] of places) {
    if (at === undefined || at.port === 0) continue
    const address = formatAuthority(at.host, at.port)
    const code = await bindable(at, kind)
    if (code === undefined) findings.push(fine('ports', `${option}: ${address} is free`))
    else if (code === 'EADDRINUSE' && running)
      findings.push(fine('ports', `${option}: ${address} is in use, and a Sluice runs here`))
    else findings.push(portTrouble(option, at, code))
  }
  return findings
}

const PORT_HELP: Readonly<Record<string, string>> = {
  EADDRINUSE: 'stop the other process (ss -ltnp shows it), or choose another address',
  EADDRNOTAVAIL: 'choose an address of this machine (ip address shows them), or 0.0.0.0'
}

function portTrouble(option: string, { host, port }: ListenAddress, code: string): Finding {
  const what: Readonly<Record<string, string>> = {
    EADDRINUSE: 'is in use by another process',
    EACCES: 'may not be opened by this user',
    EADDRNOTAVAIL: 'is no address of this machine'
  }
  const help = (code === 'EACCES' ? portPermission(port) : PORT_HELP[code]) ?? 'choose another address'
  return wrong('ports', `${option}: ${formatAuthority(host, port)} ${what[code] ?? 'cannot be opened'} (${code})`, help)
}

async function bindable({ host, port }: ListenAddress, kind: 'tcp' | 'udp'): Promise<string | undefined> {
  try {
    if (kind === 'udp') {
      const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
      socket.bind(port, host)
      await once(socket, 'listening')
      socket.close()
    } else {
      const server = createServer().listen({ host, port, exclusive: true })
      await once(server, 'listening')
      server.close()
    }
    return undefined
  } catch (error) {
    return codeOf(error) ?? String(error)
  }
}

const ANSWER_MILLISECONDS = 2_000

/** Does the upstream of the options take connections? */
export async function checkUpstream({ upstream }: Pick<Options, 'upstream'>): Promise<Finding[]> {
  if (upstream === undefined) return []
  const { host, port } = upstream
  const socket = connect({ host, port, timeout: ANSWER_MILLISECONDS })
  socket.once('timeout', () => socket.destroy(Object.assign(new Error('timeout'), { code: 'ETIMEDOUT' })))
  try {
    await once(socket, 'connect')
    return [fine('upstream', `${formatAuthority(host, port)} takes connections`)]
  } catch (error) {
    const code = codeOf(error) ?? 'ETIMEDOUT'
    const [text = code, help = 'start it, or correct upstream'] = (systemReason(code) ?? code).split('; ')
    return [doubtful('upstream', `${formatAuthority(host, port)}: ${text}`, help)]
  } finally {
    socket.destroy()
  }
}

/** Reads and builds the rules of the web application firewall. */
export async function checkFirewall({ waf }: Pick<Options, 'waf'>): Promise<Finding[]> {
  if (waf.rules === undefined) return []
  try {
    const rules = await firewallRules(waf.rules, waf)
    const { signature, items, skipped } = rules.source
    const name = signature === '' ? 'rules without a name' : signature
    const size = items.filter((item) => 'id' in item).length
    const about = `${name} (number of rules: ${size}, SHA-256: ${rules.digest})`
    const [first] = skipped
    if (first === undefined) return [fine('waf', about)]
    const left = `${about}; ${skipped.length} left out, the first: ${first}`
    return [
      doubtful('waf', left, 'these attacks are not found; use a release that Sluice knows, or set skip_unknown to off')
    ]
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    return [wrong('waf', error.message, error.help ?? 'correct waf.rules')]
  }
}

/** Descriptors that a process keeps for itself: store, log, control, threads. */
const OWN_DESCRIPTORS = 200
/** A database that cannot grow beyond this fails before long. */
const LEAST_FILE = 1024 * MIB

/**
 * The limits that the kernel sets for the process, from the text of `/proc/self/limits`. A client needs a descriptor, and its
 * request one to the upstream.
 */
export function checkLimits(text: string, { limits }: Pick<Options, 'limits'>): Finding[] {
  const hardOf = (name: string) => {
    const [, hard] = new RegExp(`^${name} +\\S+ +(\\S+)`, 'm').exec(text) ?? []
    return hard === undefined || hard === 'unlimited' ? Number.POSITIVE_INFINITY : Number(hard)
  }
  const findings: Finding[] = []
  const files = hardOf('Max open files')
  const wanted = 2 * limits.connections + OWN_DESCRIPTORS
  if (files < wanted) {
    const clients = Math.max(0, Math.floor((files - OWN_DESCRIPTORS) / 2))
    const message = `${files} open files allowed, enough for ${clients} clients at a time; limits.connections allows ${limits.connections}`
    const help = `set LimitNOFILE=${wanted} in the systemd unit (ulimit -Hn, --ulimit nofile of a container), or lower limits.connections`
    findings.push(
      files < OWN_DESCRIPTORS ? wrong('descriptors', message, help) : doubtful('descriptors', message, help)
    )
  } else findings.push(fine('descriptors', `${files} open files allowed; at most ${wanted} are needed`))
  const size = hardOf('Max file size')
  if (size < LEAST_FILE) {
    const message = `files are limited to ${formatSize(size)}, and so is the store`
    findings.push(wrong('descriptors', message, 'raise it: ulimit -f unlimited, LimitFSIZE=infinity of a systemd unit'))
  }
  return findings
}

/** Clock differences that affect limits and logins of a cluster (ms). */
const APART = { noticed: 5_000, wrong: 60_000 }

interface KnownTimes {
  /** Time of this machine. All times are milliseconds since the Unix epoch. */
  readonly now: number
  /** Build time of this version. */
  readonly built: number
  readonly committedAt: number | undefined
  readonly serverTime: number | undefined
}

/** Compares the clock of this machine with other known times. */
export function checkClock({ now, built, committedAt, serverTime }: KnownTimes): Finding[] {
  const help = 'set the clock (timedatectl set-ntp true), and check that the time service runs'
  const date = (time: number) => new Date(time).toISOString().slice(0, 19)
  if (now < built - APART.wrong) {
    return [wrong('clock', `the clock says ${date(now)}, and this version was built at ${date(built)}`, help)]
  }
  const ahead = committedAt === undefined ? 0 : committedAt - now
  if (ahead > APART.noticed) {
    const message = `the last write is from ${date(now + ahead)}, and the clock says ${date(now)}: it went back`
    return [ahead > APART.wrong ? wrong('clock', message, help) : doubtful('clock', message, help)]
  }
  const apart = serverTime === undefined ? 0 : Math.abs(serverTime - now)
  if (apart > APART.noticed) {
    const message = `the clocks of this machine and of the database are ${Math.round(apart / 1000)} s apart`
    return [apart > APART.wrong ? wrong('clock', message, help) : doubtful('clock', message, help)]
  }
  return [fine('clock', `the clock looks right (${date(now)}Z)`)]
}

/** Checks the counters of limits in the data folder; a start loads all of them or none. */
export function checkCounters({ data, limiter }: Pick<Options, 'data' | 'limiter'>): Finding[] {
  if (data === IN_MEMORY || limiter.checkpoint === 0) return []
  const problem = CountersOfLimits.problem({ data })
  if (problem === undefined) return []
  const help =
    'let the user of the process read it; the next start moves a damaged file away and starts with empty counters'
  return [doubtful('counters', `${problem.file}: ${problem.reason}`, help)]
}

/** Compares the memory limit of the control group with the memory that the options reserve. Undefined if no limit is known. */
export function checkMemory(most: number | undefined, { limiter }: Pick<Options, 'limiter'>): Finding[] {
  if (most === undefined || limiter.budget <= most / 2) return []
  const message = `limiter.budget is ${formatSize(limiter.budget)}, but the process has only ${formatSize(most)} of memory`
  return [doubtful('memory', message, 'lower limiter.budget to half of the memory, or give the process more')]
}

/** Returns the memory limit of the process's control group (bytes); undefined if there is none. */
export async function memoryLimit(): Promise<number | undefined> {
  const text = await readFile('/sys/fs/cgroup/memory.max', 'utf8').catch(() => 'max')
  return /^\d+$/.test(text.trim()) ? Number(text) : undefined
}

/** The limits of this process as the kernel writes them; empty where there is no /proc. */
export async function processLimits(): Promise<string> {
  return await readFile('/proc/self/limits', 'utf8').catch(() => '')
}
