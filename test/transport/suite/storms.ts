import type { Test } from 'tap'
import { numbers } from '../../helpers/numbers.js'
import { answering, type UpstreamPeer } from '../../helpers/upstream.js'
import { bench, GET, type Make, OK } from './harness.js'

const REQUESTS = [
  'GET /a HTTP/1.1\r\nHost: a\r\n\r\n',
  'POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello',
  'PUT /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n',
  'GET /d HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nbytes',
  'POST /e HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi',
  'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n',
  'HEAD /f HTTP/1.0\r\n\r\n'
]
const ANSWERS = [
  OK,
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n',
  'HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n',
  'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nbytes',
  'HTTP/1.0 200 OK\r\n\r\nuntil the end',
  'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nConnection: close\r\n\r\n'
]
const BYTES = [
  '\r',
  '\n',
  '\r\n',
  ' ',
  '\0',
  ':',
  '0',
  '9',
  'f',
  '\xff',
  ',',
  ';',
  '\t',
  'chunked',
  'Content-Length: 1\r\n'
]

/** Damaged bytes from both sides: nothing ends the process, and one request never becomes two. */
export function storms(t: Test, make: Make): void {
  t.test('damaged requests and answers', async (t) => {
    const random = numbers(7)
    let damage = true
    const script = async (peer: UpstreamPeer): Promise<void> => {
      if (!damage) return await answering(OK)(peer)
      await peer.head()
      const answer = damaged(ANSWERS[random(ANSWERS.length)] as string, random)
      const at = random(answer.length + 1)
      peer.send(answer.slice(0, at))
      await new Promise(setImmediate)
      peer.send(answer.slice(at))
      if (random(4) === 0) peer.reset()
      else if (random(2) === 0) peer.end()
    }
    const { client, upstream, exchanges, closed, opened, until } = await bench(t, make, { script })
    for (let round = 0; round < 300; round++) {
      const c = await client()
      const request = damaged(REQUESTS[random(REQUESTS.length)] as string, random)
      const at = random(request.length + 1)
      c.send(request.slice(0, at))
      await new Promise(setImmediate)
      c.send(request.slice(at))
      await new Promise(setImmediate)
      const leave = random(4)
      if (leave < 2) c.end()
      else if (leave === 2) c.reset()
      if (round % 20 === 19) await new Promise((resolve) => setTimeout(resolve, 5))
      if (random(3) > 0) c.socket.destroy()
    }
    damage = false
    for (const peer of upstream.peers) peer.socket.destroy()
    const heads = upstream.peers.reduce((sum, peer) => sum + (peer.text.match(/ HTTP\/1\.1\r\n/g)?.length ?? 0), 0)
    t.ok(exchanges.length > 50, `${exchanges.length} exchanges`)
    t.ok(heads <= exchanges.length, `${heads} requests reached the upstream`)
    const c = await client()
    for (let i = 0; i < 3; i++) {
      c.send(GET)
      t.equal((await c.answer()).body, 'ok')
    }
    c.end()
    await until(() => closed.length > opened.length / 2)
  })
}

function damaged(text: string, random: (below: number) => number): string {
  let result = text
  for (let n = random(3); n > 0; n--) {
    const at = random(result.length + 1)
    const insert = BYTES[random(BYTES.length)] as string
    result = result.slice(0, at) + insert + result.slice(at + random(3))
  }
  return result
}
