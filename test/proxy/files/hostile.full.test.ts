import { execFileSync } from 'node:child_process'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { rawClient, valuesOf } from '../../helpers/raw-client.js'
import { engines, startSluice } from '../../helpers/sluice.js'
import { folderOf } from './folder.js'

const SECRET = 'the-secret-of-the-machine'
/** Each reaches a secret beside the folder if dots, slashes or their encodings are taken for what they look like. */
const UP = [
  '..',
  '%2e%2e',
  '%2E%2E',
  '.%2e',
  '%2e.',
  '%252e%252e',
  '%25252e%25252e',
  '..%00',
  '%00..',
  '..%5c',
  '..\\',
  '..;',
  '..;a=b',
  '..%3b',
  '%c0%ae%c0%ae',
  '%e0%80%ae%e0%80%ae',
  '%f0%80%80%ae%f0%80%80%ae',
  '%uff0e%uff0e',
  '%ef%bc%8e%ef%bc%8e',
  '%u002e%u002e',
  '....',
  '....//..',
  '.../...',
  '..%20',
  '..%09',
  '..%0a',
  '..%0d%0a',
  '..%c0%af..',
  '..%2f..',
  '..%252f..',
  '..%5c..',
  '..%255c..'
]
const TARGETS: readonly string[] = [
  ...UP.flatMap((up) => [`/${up}/secret.txt`, `/docs/${up}/${up}/secret.txt`]),
  '//secret.txt',
  '///etc/passwd',
  '/%2fetc/passwd',
  '/%2f%2fetc%2fpasswd',
  '/etc/passwd',
  '/docs%2f..%2f..%2fsecret.txt',
  '/docs%5c..%5c..%5csecret.txt',
  '/./../secret.txt',
  '/%2e/%2e%2e/secret.txt',
  '/~root/secret.txt',
  '/file:///etc/passwd',
  '/C:/secret.txt',
  '/C:%5csecret.txt',
  '/index.html%00.jpg',
  '/index.html%00',
  '/index.html%20',
  '/index.html::$DATA',
  '/index.html/',
  '/index.html/../../secret.txt',
  '/out.txt',
  '/out/secret.txt',
  '/far.txt',
  '/loop',
  '/loop/a',
  '/pipe',
  '/socket',
  '/null',
  '/zero',
  '/.env',
  '/%2eenv',
  '/%2Eenv',
  '/.git/config',
  '/.git%2fconfig',
  '/docs/.hidden/a.txt',
  '/docs/.htpasswd',
  '/visible.txt',
  '/docs/.well-known/a.txt',
  '/.well-known/.hidden',
  '/.well-known/../.env',
  '/.well-known%2f..%2f.env',
  `/${'a/'.repeat(2000)}b`,
  `/${'a'.repeat(300)}`,
  `/${'../'.repeat(500)}secret.txt`,
  '/%',
  '/%2',
  '/%zz/secret.txt',
  '/%ff%fe',
  '/docs/%ed%a0%80',
  '/index.html%0d%0aX-Injected:%201',
  '/docs%0d%0aX-Injected:%201',
  '/docs?a=%0d%0aX-Injected:%201',
  '/docs?//evil.example',
  '//evil.example/%2e%2e',
  '//evil.example/docs',
  '/%5cevil.example/',
  '\\..\\secret.txt',
  '../secret.txt',
  'secret.txt',
  '*',
  'http://a.test/../secret.txt',
  'http://a.test/%2e%2e/secret.txt',
  'file:///etc/passwd'
]

for (const engine of engines) {
  for (const form of ['strict', 'lenient', 'exact']) {
    t.test(`${engine}: no target leaves the folder, with paths in the ${form} form`, async (t) => {
      t.ok(TARGETS.length >= 80)
      const outside = await folderOf(t, {
        'secret.txt': SECRET,
        'public/index.html': 'home',
        'public/docs/index.html': 'docs'
      })
      const folder = join(outside, 'public')
      await mkdir(join(folder, 'docs/.hidden'))
      await mkdir(join(folder, '.git'))
      await mkdir(join(folder, '.well-known'))
      for (const path of ['.env', '.git/config', 'docs/.hidden/a.txt', 'docs/.htpasswd', '.well-known/.hidden'])
        await writeFile(join(folder, path), SECRET)
      await symlink('../secret.txt', join(folder, 'out.txt'))
      await symlink('..', join(folder, 'out'))
      await symlink('/etc/passwd', join(folder, 'far.txt'))
      await symlink('loop', join(folder, 'loop'))
      await symlink('.env', join(folder, 'visible.txt'))
      await symlink('/dev/null', join(folder, 'null'))
      await symlink('/dev/zero', join(folder, 'zero'))
      execFileSync('mkfifo', [join(folder, 'pipe')])
      const socket = createServer().listen(join(folder, 'socket'))
      t.teardown(() => {
        socket.close()
      })
      const sluice = await startSluice(t, { engine, options: { FILES: folder, PATH_FORM: form } })
      for (const target of TARGETS) {
        const client = await rawClient(sluice.port)
        client.send(`GET ${target} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n`)
        const answer = await client.answer()
        client.socket.destroy()
        const shown = JSON.stringify(target.slice(0, 60))
        t.notMatch(client.text, SECRET, shown)
        t.notMatch(client.text, 'root:', shown)
        t.notMatch(client.text, /^X-Injected/m, shown)
        t.ok(
          [400, 404].includes(answer.status) || (isHome(answer.body) && answer.status === 200) || answer.status === 308,
          `${answer.status} for ${shown}`
        )
        for (const location of valuesOf(answer, 'location')) t.match(location, /^\.\/docs\/(\?|$)/, shown)
      }
    })
  }
}

/** A dot segment may have been resolved by the normal form of the path, within the folder. */
function isHome(body: string): boolean {
  return body === 'home' || body === 'docs'
}
