import type { Received, WireCase } from '../fixtures/wire/case.js'
import { type Message, statusOf, values } from './message.js'
import { ok, RawClient, turn, type Upstream } from './peers.js'

const PROBE = 'GET /probe HTTP/1.1\r\nHost: probe.test\r\n\r\n'

/** Sends a case in `pieces` and says what was wrong about the proxy's reaction; empty: nothing. */
export async function judge(
  port: number,
  upstream: Upstream,
  wire: WireCase,
  pieces: readonly string[],
  probe: RawClient
): Promise<string[]> {
  upstream.reset()
  const { reply } = wire
  if (reply !== undefined) upstream.reply = () => reply
  const client = await RawClient.open(port)
  client.methods = methodsOf(wire)
  for (const [i, piece] of pieces.entries()) {
    client.write(piece)
    if (i < pieces.length - 1) await turn(2)
  }
  if (wire.ends === true) client.socket.end()
  const problems = await answersOf(client, wire)
  upstream.reply = ok
  if (wire.closes === false && problems.length === 0) problems.push(...(await goesOn(client)))
  client.close()
  const survived = await probe.ask(PROBE)
  if (survived === undefined || statusOf(survived) !== 200)
    problems.push('the next request on another connection failed')
  problems.push(...upstream.malformed.map((text) => `the upstream got what no strict reader accepts: ${text}`))
  const got = upstream.requests.filter(({ line }) => !line.includes(' /probe '))
  if (wire.closes === undefined && client.answers.length < wire.answers.length) return problems
  problems.push(...receivedProblems(wire, client, got))
  return problems
}

/** Waits for the answers of a case, and for the end of the connection when it must come. */
async function answersOf(client: RawClient, wire: WireCase): Promise<string[]> {
  const problems: string[] = []
  const count = wire.answers.length
  if (!(await client.until(() => client.closed || client.malformed !== undefined || client.answers.length >= count))) {
    problems.push(`no answer within the deadline (${client.answers.length} of ${count})`)
  }
  const last = client.answers.at(-1)
  if (wire.closes === true) {
    if (last !== undefined && !saysClose(last)) problems.push('does not say that it closes')
    else if (!(await client.until(() => client.closed))) problems.push('the connection stays open')
  }
  if (client.malformed !== undefined) problems.push(`malformed answer: ${client.malformed}`)
  const got = client.answers.map(statusOf)
  const right = got.length <= count && wire.answers.every((status, i) => matches(status, got[i] ?? 0))
  if (!right)
    problems.push(
      `answers ${JSON.stringify(got)}, expected ${JSON.stringify(wire.answers)}${client.error === undefined ? '' : ` (${client.error})`}`
    )
  if (client.malformed === undefined && client.rest !== '')
    problems.push(`bytes behind the answers: ${JSON.stringify(client.rest.slice(0, 100))}`)
  if (wire.closes === false && client.closed) problems.push('the connection was closed')
  problems.push(...answerFields(wire, last))
  return problems
}

function matches(expected: number | readonly number[], got: number): boolean {
  return typeof expected === 'number' ? expected === got : expected.includes(got)
}

function saysClose(answer: Message): boolean {
  return values(answer.headers, 'connection').some((value) => value.toLowerCase() === 'close')
}

function answerFields({ answerHas = {}, answerLacks = [] }: WireCase, answer: Message | undefined): string[] {
  if (answer === undefined) return []
  const problems: string[] = []
  for (const [name, value] of Object.entries(answerHas)) {
    const got = values(answer.headers, name)
    if (got.length !== 1 || got[0] !== value) problems.push(`answer: ${name} is ${JSON.stringify(got)}`)
  }
  for (const name of answerLacks) {
    if (values(answer.headers, name).length > 0) problems.push(`answer: has ${name}`)
  }
  return problems
}

/** The connection must serve another request, and the answer must be of that request. */
async function goesOn(client: RawClient): Promise<string[]> {
  const answer = await client.ask(PROBE)
  if (answer === undefined) return ['the connection does not serve another request']
  return statusOf(answer) === 200 && answer.body === 'ok' ? [] : [`the next request got ${answer.line}`]
}

function methodsOf(wire: WireCase): string[] {
  return wire.upstream.length > 0 ? wire.upstream.map(({ line }) => line.split(' ')[0] as string) : []
}

/** What the upstream got, against what it should have got. */
function receivedProblems(wire: WireCase, client: RawClient, got: readonly Message[]): string[] {
  const first = client.answers[0]
  const open = wire.answers.length === 1 && Array.isArray(wire.answers[0])
  const expected = open && (first === undefined || statusOf(first) >= 300) ? [] : wire.upstream
  const lines = got.map(({ line }) => line.slice(0, line.lastIndexOf(' ')))
  const wanted = expected.map(({ line }) => line)
  if (lines.join('\n') !== wanted.join('\n')) {
    return [`the upstream got ${JSON.stringify(lines).slice(0, 300)}, expected ${JSON.stringify(wanted).slice(0, 300)}`]
  }
  return expected.flatMap((one, i) => requestProblems(one, got[i] as Message))
}

function requestProblems(expected: Received, got: Message): string[] {
  const problems: string[] = []
  if (expected.body !== undefined && expected.body !== got.body)
    problems.push(`body ${JSON.stringify(got.body.slice(0, 100))}`)
  for (const [name, value] of Object.entries(expected.has ?? {})) {
    const wanted = typeof value === 'string' ? [value] : value
    const found = values(got.headers, name)
    // Two Cookie fields and one with both are the same (RFC 9113 8.2.3).
    const separator = name === 'cookie' ? '; ' : '\n'
    if (found.join(separator) !== wanted.join(separator))
      problems.push(`${name} is ${JSON.stringify(found).slice(0, 200)}`)
  }
  for (const name of expected.lacks ?? []) {
    if (values(got.headers, name).length > 0) problems.push(`has ${name}`)
  }
  for (const [name, value] of Object.entries(expected.trailers ?? {})) {
    const found = values(got.trailers, name)
    if (found.length !== 1 || found[0] !== value) problems.push(`trailer ${name} is ${JSON.stringify(found)}`)
  }
  for (const name of expected.lacksTrailers ?? []) {
    if (values(got.trailers, name).length > 0) problems.push(`has trailer ${name}`)
  }
  return problems.map((problem) => `${expected.line.slice(0, 60)}: ${problem}`)
}
