import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'

const MOST_LINES = 400

/** Files that are one thought and longer, with the lines that they may have. */
const LONGER: Readonly<Record<string, number>> = {
  // One state machine on the hot path.
  'src/transport/http1/client-connection.ts': 500
}

t.test(`no file of src is longer than ${MOST_LINES} lines`, async (t) => {
  const files = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
  t.ok(files.length > 300, `${files.length} files were read`)
  const lengths = new Map(
    files.map((file) => [path.join('src', file), readFileSync(path.join('src', file), 'utf8').split('\n').length - 1])
  )
  const long = [...lengths].filter(([file, length]) => length > (LONGER[file] ?? MOST_LINES))
  t.same(long, [])
})
