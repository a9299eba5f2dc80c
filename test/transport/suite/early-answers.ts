import type { Test } from 'tap'
import type { UpstreamPeer } from '../../helpers/upstream.js'
import { bench, type Make } from './harness.js'

const PIECE = 'x'.repeat(65_536)
const PIECES = 48
const TRIES = 8

/** How a client of HTTP/1.1 sends the same upload. */
const UPLOADS = {
  'of a known length': {
    head: `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${PIECES * PIECE.length}\r\n\r\n`,
    piece: PIECE
  },
  chunked: { head: 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n', piece: `10000\r\n${PIECE}\r\n` }
}

const ANSWERS = {
  'with a length': 'HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\r\nstop',
  'with Connection: close': 'HTTP/1.1 401 No\r\nConnection: close\r\nContent-Length: 4\r\n\r\nstop',
  'in chunks': 'HTTP/1.1 429 No\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nstop\r\n0\r\n\r\n'
}

/** Answers behind the head, and closes without having read the body: the kernel then sends RST. */
async function refuse(peer: UpstreamPeer, answer: string): Promise<void> {
  await peer.head()
  peer.socket.pause()
  peer.socket.write(answer, () => peer.socket.destroy())
}

/** Upstreams that answer and close while the request is still being written. */
export function earlyAnswers(t: Test, make: Make): void {
  for (const [how, { head, piece }] of Object.entries(UPLOADS)) {
    for (const [what, answer] of Object.entries(ANSWERS)) {
      t.test(`an answer ${what} reaches the client although the upstream closes, upload ${how}`, async (t) => {
        const { client, failures } = await bench(t, make, { script: (peer) => refuse(peer, answer) })
        for (let i = 0; i < TRIES; i++) {
          const c = await client()
          c.send(head)
          for (let n = 0; n < PIECES; n++) c.send(piece)
          const { status, body } = await c.answer()
          t.same([status, body], [Number(answer.slice(9, 12)), 'stop'])
          c.socket.destroy()
        }
        t.same(failures, [], 'such an answer is no failure')
      })
    }
  }

  t.test('a part of an answer before a reset is no whole one, however it is framed', async (t) => {
    for (const part of [
      'HTTP/1.1 413 No\r\nContent-Length: 9\r\n\r\nstop',
      'HTTP/1.1 413 No\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nstop\r\n',
      'HTTP/1.1 413 No\r\nConnection: close\r\n\r\nstop'
    ]) {
      const { client, sent, until, failures } = await bench(t, make, { script: (peer) => refuse(peer, part) })
      const c = await client()
      const { head, piece } = UPLOADS.chunked
      c.send(head)
      for (let n = 0; n < PIECES; n++) c.send(piece)
      await c.untilEnd()
      t.notMatch(c.text, '0\r\n\r\n', part)
      await until(() => sent.length === 1)
      // Without a head that was read in time the request fails; a head that was read makes the body fail.
      t.ok(sent[0]?.failure === 'upstream-gone' || failures[0]?.failure === 'upstream-gone', part)
    }
  })

  t.test('an upstream that closes in an upload without a word has failed', async (t) => {
    const { client, failures } = await bench(t, make, {
      async script(peer) {
        await peer.head()
        peer.socket.pause()
        peer.socket.destroy()
      }
    })
    const c = await client()
    c.send(UPLOADS.chunked.head)
    for (let n = 0; n < PIECES; n++) c.send(UPLOADS.chunked.piece)
    t.equal((await c.answer()).status, 502)
    t.equal(failures[0]?.failure, 'upstream-gone')
  })
}
