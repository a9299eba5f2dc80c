import { secondsOfDuration } from '../durations.js'
import {
  close,
  EXACT,
  type ImportedTimeouts,
  type ImportedUpstream,
  notHere,
  type UpstreamServer,
  type Verdict
} from '../model.js'
import type { Ledger } from '../report.js'
import { valueAfter } from './rules.js'
import { sampleCel } from './samples.js'
import type { HaproxyLine } from './syntax.js'

type Settings = Omit<ImportedUpstream, 'name' | 'at' | 'verdict'>

const HASH = close('the same key always gets the same server, but not the one that HAProxy chooses')

function balanceOf([algorithm = '', parameter = '']: readonly string[]): {
  settings: Partial<Settings>
  verdict: Verdict
} {
  const hash = (hashKey: string | undefined) =>
    hashKey === undefined
      ? { settings: {}, verdict: notHere('its key has no expression', 'write hash_key') }
      : { settings: { balance: 'hash', hashKey } as const, verdict: HASH }
  if (algorithm === 'roundrobin' || algorithm === 'static-rr') return { settings: {}, verdict: EXACT }
  if (algorithm === 'leastconn') return { settings: { balance: 'least_requests' }, verdict: EXACT }
  if (algorithm === 'source') return hash('conn.client_ip')
  if (algorithm === 'uri') return hash('req.url.path')
  if (algorithm === 'url_param') return hash(sampleCel(`url_param(${parameter})`))
  if (/^hdr\(/.test(algorithm)) return hash(sampleCel(algorithm))
  if (algorithm === 'hash') return hash(sampleCel(parameter))
  if (algorithm === 'first')
    return {
      settings: { balance: 'failover' },
      verdict: close('the next server is for failures, not for too many connections')
    }
  return { settings: {}, verdict: close('servers get requests in turn by weight') }
}

const FLAGS = [
  'check',
  'backup',
  'ssl',
  'disabled',
  'send-proxy',
  'send-proxy-v2',
  'check-ssl',
  'no-check',
  'no-ssl',
  'enabled',
  'tfo',
  'non-stick',
  'allow-0rtt',
  'agent-check',
  'no-backup',
  'send-proxy-v2-ssl',
  'send-proxy-v2-ssl-cn'
]

interface ReadServer {
  readonly server?: UpstreamServer
  readonly tls?: ImportedUpstream['tls']
  readonly isChecked: boolean
  readonly verdict: Verdict
}

function readServer(
  [, address = '', ...options]: readonly string[],
  usual: readonly string[],
  isTcp: boolean
): ReadServer {
  const all = [...options, ...usual]
  const differences: string[] = []
  let tls: ImportedUpstream['tls']
  for (let index = 0; index < all.length; index++) {
    const name = all[index] as string
    if (FLAGS.includes(name)) continue
    const value = all[++index] ?? ''
    if (name === 'verify' && value === 'none') tls = { ...tls, insecure: true }
    else if (name === 'ca-file' && !value.startsWith('@')) tls = { ...tls, caFile: value }
    else if (name === 'sni' && /^str\(/.test(value)) tls = { ...tls, serverName: value.slice(4, -1) }
    else if (name === 'verifyhost') tls = { ...tls, serverName: value }
    else if (!['weight', 'verify', 'alpn', 'proto', 'sni', 'ca-file'].includes(name))
      differences.push(`${name} is not taken over`)
  }
  if (all.includes('disabled')) return { isChecked: false, verdict: EXACT }
  const isTls = all.includes('ssl')
  if (all.some((name) => name.startsWith('send-proxy')))
    return {
      isChecked: false,
      verdict: notHere(
        'Sluice sends the PROXY protocol by another option; the server is left out',
        'write proxy_protocol of the backend'
      )
    }
  const scheme = isTcp ? 'tcp' : isTls ? 'https' : valueAfter(all, 'proto') === 'h2' ? 'h2c' : 'http'
  const host = address.replace(/^ipv[46]@/, '').replace(/^(?:unix@|(?=\/))/, 'unix:')
  const port = host.startsWith('unix:') || /:(?:\d+|\$\{\w+\})$/.test(host) ? '' : scheme === 'https' ? ':443' : ':80'
  if (isTcp && isTls) differences.push('TLS to the server is not used')
  const weight = valueAfter(all, 'weight')
  if (weight === '0') return { isChecked: false, verdict: close('a server without weight is left out') }
  return {
    server: {
      url: `${scheme}://${host}${port}`,
      ...(weight === undefined || weight === '1' ? {} : { weight: Number(weight) }),
      ...(all.includes('backup') ? { backup: true } : {})
    },
    ...(isTls && tls !== undefined ? { tls } : {}),
    isChecked: all.includes('check'),
    verdict:
      isTcp && isTls
        ? notHere('a TCP edge speaks no TLS to servers', 'use a site')
        : differences.length === 0
          ? EXACT
          : close([...new Set(differences)].join('; '))
  }
}

/** Servers, balance, health and time-outs of a section. Judges its lines. */
export function readBackend(
  lines: readonly HaproxyLine[],
  ledger: Ledger,
  isTcp: boolean
): { readonly settings: Settings; readonly timeouts?: ImportedTimeouts } {
  const servers: UpstreamServer[] = []
  let settings: Partial<Settings> = {}
  let timeouts: ImportedTimeouts | undefined
  let healthPath: string | undefined
  let isChecked = false
  const usual = lines.filter(({ words }) => words[0] === 'default-server').flatMap(({ words }) => words.slice(1))
  for (const { words, at } of lines) {
    const [keyword = '', ...args] = words
    if (keyword === 'server') {
      const read = readServer(args, usual, isTcp)
      if (read.server !== undefined) servers.push(read.server)
      if (read.tls !== undefined) settings = { ...settings, tls: { ...settings.tls, ...read.tls } }
      isChecked ||= read.isChecked
      ledger.judge(at, read.verdict)
    } else if (keyword === 'server-template' || keyword === 'dispatch')
      ledger.judge(at, notHere('its servers are not known here', 'write servers, or srv+http://'))
    else if (keyword === 'balance') {
      const read = balanceOf(args)
      settings = { ...settings, ...read.settings }
      ledger.judge(at, read.verdict)
    } else if (keyword === 'cookie') {
      settings = { ...settings, stickyCookie: args[0] ?? 'SERVERID' }
      ledger.judge(at, close('the cookie is sealed by Sluice'))
    } else if (keyword === 'option' && args[0] === 'httpchk') {
      healthPath = args.find((arg) => arg.startsWith('/')) ?? '/'
      ledger.judge(at, args.some((arg) => /^(?:GET|\/.*|HTTP\/.*)$/.test(arg)) ? EXACT : close('the check is a GET'))
    } else if (keyword === 'http-check') {
      const uri = valueAfter(args, 'uri')
      if (uri !== undefined) healthPath = uri
      ledger.judge(
        at,
        uri !== undefined ? EXACT : close('2xx and 3xx are healthy unless health of the backend says otherwise')
      )
    } else if (keyword === 'timeout') {
      const seconds = secondsOfDuration(args[1] ?? '', 'ms')
      const isOwn = seconds !== undefined && (args[0] === 'connect' || args[0] === 'server')
      if (isOwn)
        timeouts =
          args[0] === 'connect' ? { ...timeouts, connect: seconds } : { ...timeouts, firstByte: seconds, idle: seconds }
      ledger.judge(at, isOwn ? EXACT : close('an option timeouts.* of Sluice says it for all sites'))
    }
  }
  return {
    settings: { servers, ...settings, ...(isChecked && healthPath !== undefined && !isTcp ? { healthPath } : {}) },
    ...(timeouts === undefined ? {} : { timeouts })
  }
}
