import { readFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'

type Read = (path: string) => Promise<string | undefined>

/**
 * Returns the number of processors that this process may use, at least 1: its CPU affinity, limited by the quota of its control group or a
 * parent (cgroup v2: `cpu.max`, v1: `cpu.cfs_quota_us` by `cpu.cfs_period_us`). Fractions are ignored.
 */
export async function processorsOfProcess(read: Read = readText, all = availableParallelism()): Promise<number> {
  const groups = (await read('/proc/self/cgroup')) ?? ''
  const quotas = await Promise.all(foldersOf(groups).map((folder) => quotaOf(folder, read)))
  return Math.max(1, Math.floor(Math.min(all, ...quotas)))
}

/** Returns the folders of the group and its parents, which may have a quota. */
function foldersOf(groups: string): string[] {
  const folders = new Set<string>()
  for (const line of groups.split('\n')) {
    const [, controllers, path] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? []
    if (path === undefined || controllers === undefined) continue
    const of = controllers === '' ? '' : controllers.split(',').includes('cpu') ? '/cpu' : undefined
    if (of === undefined) continue
    const parts = path.split('/').filter((part) => part !== '' && part !== '..')
    for (let depth = parts.length; depth >= 0; depth--)
      folders.add([`/sys/fs/cgroup${of}`, ...parts.slice(0, depth)].join('/'))
  }
  return [...folders]
}

async function quotaOf(folder: string, read: Read): Promise<number> {
  const [quota, period] = (await read(`${folder}/cpu.max`))?.trim().split(' ') ?? [
    (await read(`${folder}/cpu.cfs_quota_us`))?.trim(),
    (await read(`${folder}/cpu.cfs_period_us`))?.trim()
  ]
  const processors = Number(quota) / Number(period)
  return processors > 0 ? processors : Number.POSITIVE_INFINITY
}

async function readText(path: string): Promise<string | undefined> {
  return await readFile(path, 'utf8').catch(() => undefined)
}
