import { spawnSync } from 'node:child_process'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { LzwEncoder } from '../../../src/features/compression/lzw.js'
import { leastHold } from '../../helpers/loop-hold.js'

t.test('a body that comes as one chunk is encoded over many turns of the loop', async (t) => {
  const body = Buffer.from(Array.from({ length: 1024 * 1024 }, (_, i) => ((i * 7919) >> 3) & 0xff))
  const { value, turns } = await leastHold(async () => {
    const encoder = new LzwEncoder()
    encoder.end(body)
    const encoded = await buffer(encoder)
    t.equal(encoder.bytesWritten, body.length)
    return encoded
  })
  t.ok(turns >= 32, `${turns} turns`)
  const decoded = spawnSync('gzip', ['-dc'], { input: value, maxBuffer: 2 * body.length })
  t.ok(decoded.stdout.equals(body), String(decoded.stderr))
})

t.test('an encoder that is destroyed halfway ends its work', async (t) => {
  const encoder = new LzwEncoder()
  encoder.write(Buffer.alloc(1024 * 1024))
  encoder.destroy()
  await new Promise((resolve) => encoder.once('close', resolve))
  for (let turn = 0; turn < 100; turn++) await new Promise((resolve) => setImmediate(resolve))
  t.ok(encoder.bytesWritten <= 32_768, `${encoder.bytesWritten} bytes`)
})
