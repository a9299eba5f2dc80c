import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { inheritedEnvironment } from '../cli/process.js'
import { lacks } from '../helpers/small-disk.js'
import { type Instruction, only, stages } from './containerfile.js'
import { executable } from './executable.js'

const run = promisify(execFile)

/** Why the image cannot be made and run here; false if it can. */
export function lacksImages(): string | false {
  return (
    (process.getuid?.() !== 0 && 'only root makes an image') ||
    lacks('unshare', ['--mount', 'true']) ||
    lacks('apt-get', ['indextargets']) ||
    lacks('dpkg-deb', ['--version'])
  )
}

export interface Image {
  readonly root: string
  /** Instructions of the last stage of the Containerfile. */
  readonly instructions: readonly Instruction[]
  readonly env: Readonly<Record<string, string>>
  /** Words of ENTRYPOINT and CMD. */
  readonly command: readonly string[]
  /** Words of HEALTHCHECK. */
  readonly health: readonly string[]
}

/** Makes the root of the image in the folder `root`, which is removed after the test. */
export async function makeImage(t: Test, root: string): Promise<Image> {
  t.teardown(() => rm(root, { recursive: true, force: true }))
  await run(process.execPath, ['config/image.mjs', '--binary', await executable(), '--out', root])
  return await imageIn(root)
}

/** Makes the root of the image as the first stage of the Containerfile does, with the Node of this machine, in the folder `work`. */
export async function buildImage(t: Test, work: string, commit: string): Promise<Image> {
  t.teardown(() => rm(work, { recursive: true, force: true }))
  const [stage = []] = await stages()
  const here = (text: string) => text.replace(/(?<![\w.])\/(out|image|src)(?=\/|$)/g, join(work, '$1'))
  const env = { ...inheritedEnvironment(), COMMIT: commit }
  const steps = stage.map(({ name, text }) => {
    if (name === 'WORKDIR') return `mkdir -p ${here(text)} && cd ${here(text)}`
    if (name === 'COPY') return `(cd ${process.cwd()} && tar -c ${text.split(' ').slice(0, -1).join(' ')}) | tar -x`
    if (name === 'ENV') return `export ${text}`
    return name === 'RUN' ? here(text) : ''
  })
  await run('sh', ['-euc', steps.join('\n')], { cwd: work, env, maxBuffer: 2 ** 24 })
  return await imageIn(join(work, 'image'))
}

async function imageIn(root: string): Promise<Image> {
  const [, instructions = []] = await stages()
  const [, health = '[]'] = /CMD (\[.*\])$/.exec(only(instructions, 'HEALTHCHECK')) ?? []
  const pairs = only(instructions, 'ENV').match(/\w+=\S+/g) ?? []
  return {
    root,
    instructions,
    env: Object.fromEntries(pairs.map((pair) => pair.split('=', 2) as [string, string])),
    command: [only(instructions, 'ENTRYPOINT'), only(instructions, 'CMD')].flatMap(
      (each) => JSON.parse(each) as string[]
    ),
    health: JSON.parse(health) as string[]
  }
}

/** A container: the image with a volume, and the network namespace in which it runs. */
export interface Container {
  readonly image: Image
  /** Folder that is mounted at /data; default: the one of the image. */
  readonly volume?: string
  /** Name of a network namespace; default: the network of the machine. */
  readonly network?: string
}

/**
 * Returns the command that runs `words` as the user of the image, with all but the volume read-only, no capability but the one to change the root,
 * and no way to more.
 */
export function insideContainer(
  { image, volume, network }: Container,
  words: readonly string[]
): readonly [string, readonly string[]] {
  const user = only(image.instructions, 'USER').split(':')[0] as string
  const script = `mount --bind "$0" "$0" && mount --bind "$1" "$0/data" && mount -o remount,ro,bind "$0" &&
    mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && root=$0 && shift &&
    exec setpriv --reuid=${user} --regid=${user} --clear-groups --no-new-privs --bounding-set=-all,+sys_chroot \
      --inh-caps=-all,+sys_chroot --ambient-caps=-all,+sys_chroot -- chroot "$root" "$@"`
  const mounted = ['unshare', '--mount', 'sh', '-c', script, image.root, volume ?? join(image.root, 'data'), ...words]
  const [command = '', ...rest] = network === undefined ? mounted : ['ip', 'netns', 'exec', network, ...mounted]
  return [command, rest]
}
