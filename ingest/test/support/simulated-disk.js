// A disk in memory that breaks as one of a real machine may, as the engine's tests have it. Chance
// decides what a crash leaves of what was not synced: any sectors of any write, any of the changed
// names.

const SECTOR_BYTES = 512

/** @typedef {import('../../src/spool/disk.js').Disk} Disk */
/** @typedef {() => number} Random */
/** @typedef {'kill' | 'power'} Crash  Of the process alone, or of the machine. */

/**
 * @typedef {object} Inode
 * @property {Buffer} bytes  As a running machine sees them.
 * @property {Buffer} durable
 * @property {{ at: number, bytes: Buffer | undefined }[]} pending  Nothing: the end is cut off.
 */

/** @typedef {(names: Map<string, Inode>) => void} NameChange */
/** @typedef {(call: number, kind: string, path: string) => string | undefined} Fault */

/** @implements {Disk} */
export class SimulatedDisk {
  /** @type {Map<string, Inode>} */
  #names = new Map()
  /** @type {Map<string, Inode>} */
  #durableNames
  /** @type {NameChange[]} */
  #pendingNames = []
  #random
  #isLocked = false

  /** How many calls there were. */
  calls = 0
  /** Whether the process is gone: no call ends any more. */
  isOff = false
  /** What goes wrong with a call. @type {Fault} */
  fault = () => undefined
  /** @type {() => void} */
  onOff = () => {}

  /** @param {Random} random  @param {Map<string, Buffer>} [files] */
  constructor(random, files = new Map()) {
    this.#random = random
    for (const [name, bytes] of files) {
      this.#names.set(name, { bytes: Buffer.from(bytes), durable: Buffer.from(bytes), pending: [] })
    }
    this.#durableNames = new Map(this.#names)
  }

  /** What a crash leaves. No call ends any more. @param {Crash} kind  @param {Random} random */
  crash(kind, random) {
    this.isOff = true
    const keep = [0, 0.5, 1][Math.floor(random() * 3)]
    const names = new Map(kind === 'kill' ? this.#names : this.#durableNames)
    if (kind === 'power') {
      for (const change of this.#pendingNames) if (random() < keep) change(names)
    }
    /** @type {Map<string, Buffer>} */
    const files = new Map()
    for (const [name, inode] of names) {
      files.set(name, kind === 'kill' ? Buffer.from(inode.bytes) : leftOf(inode, random))
    }
    return files
  }

  async makeDirectory() {}

  /** @param {string} path */
  list(path) {
    return this.#call('list', path, () => {
      return [...this.#names.keys()].map((name) => name.slice(path.length + 1))
    })
  }

  /** @param {string} path */
  readFile(path) {
    return this.#call('read', path, () => Buffer.from(this.#inode(path).bytes))
  }

  /** @param {string} path  @param {'read' | 'create' | 'update'} how */
  open(path, how) {
    return this.#call('open', path, () => {
      const found = this.#names.get(path)
      if (found && how === 'create') throw failure('EEXIST')
      if (!found && how === 'read') throw failure('ENOENT')
      return this.#fileOf(found ?? this.#make(path), path)
    })
  }

  /** @param {string} from  @param {string} to */
  rename(from, to) {
    return this.#call('rename', from, () => {
      const inode = this.#inode(from)
      this.#change((names) => {
        names.delete(from)
        names.set(to, inode)
      })
    })
  }

  /** @param {string} path */
  remove(path) {
    return this.#call('remove', path, () => {
      this.#inode(path)
      this.#change((names) => names.delete(path))
    })
  }

  /** @param {string} path */
  syncDirectory(path) {
    return this.#call('syncDirectory', path, () => {
      for (const change of this.#pendingNames) change(this.#durableNames)
      this.#pendingNames = []
    })
  }

  /** @param {string} path */
  lock(path) {
    return this.#call('lock', path, () => {
      if (this.#isLocked) return undefined
      this.#isLocked = true
      if (!this.#names.has(path)) this.#make(path)
      return {
        close: async () => {
          this.#isLocked = false
        },
      }
    })
  }

  /** @param {Inode} inode  @param {string} path */
  #fileOf(inode, path) {
    return {
      read: (/** @type {Buffer} */ bytes, /** @type {number} */ position) =>
        this.#call('read', path, () => inode.bytes.copy(bytes, 0, position)),
      write: (/** @type {Buffer} */ bytes, /** @type {number} */ position) =>
        this.#call(
          'write',
          path,
          () => write(inode, bytes, position),
          () => {
            for (const { at, sector } of sectorsOf(bytes, position)) {
              if (this.#random() < 0.5) write(inode, sector, at)
            }
          },
        ),
      datasync: () =>
        this.#call(
          'datasync',
          path,
          () => {
            for (const { at, bytes } of inode.pending)
              inode.durable = bytes
                ? overlay(inode.durable, at, bytes)
                : inode.durable.subarray(0, at)
            inode.pending = []
          },
          // What a failed sync was to make durable is forgotten, though it can be read until then.
          () => {
            inode.pending = []
          },
        ),
      truncate: (/** @type {number} */ bytes) =>
        this.#call('truncate', path, () => {
          inode.bytes = inode.bytes.subarray(0, bytes)
          inode.pending.push({ at: bytes, bytes: undefined })
        }),
      async close() {},
    }
  }

  /**
   * @template Result
   * @param {string} kind
   * @param {string} path
   * @param {() => Result} run
   * @param {() => void} [runPart]  What a call that fails may do all the same.
   * @returns {Promise<Result>}
   */
  async #call(kind, path, run, runPart) {
    await undefined
    if (this.isOff) return new Promise(() => {})
    const fault = this.fault(this.calls++, kind, path)
    if (fault === undefined) return run()
    if (fault === 'off') {
      if (this.#random() < 0.3) run()
      else runPart?.()
      this.isOff = true
      this.onOff()
      return new Promise(() => {})
    }
    runPart?.()
    throw failure(fault)
  }

  /** @param {string} path */
  #make(path) {
    /** @type {Inode} */
    const inode = { bytes: Buffer.alloc(0), durable: Buffer.alloc(0), pending: [] }
    this.#change((names) => names.set(path, inode))
    return inode
  }

  /** @param {string} path */
  #inode(path) {
    const inode = this.#names.get(path)
    if (!inode) throw failure('ENOENT')
    return inode
  }

  /** @param {NameChange} change */
  #change(change) {
    change(this.#names)
    this.#pendingNames.push(change)
  }
}

/** @param {string} code */
function failure(code) {
  return Object.assign(new Error(`${code}: simulated`), { code })
}

/** @param {Inode} inode  @param {Buffer} bytes  @param {number} at */
function write(inode, bytes, at) {
  inode.bytes = overlay(inode.bytes, at, bytes)
  inode.pending.push({ at, bytes: Buffer.from(bytes) })
}

/** @param {Inode} inode  @param {Random} random */
function leftOf(inode, random) {
  const keep = [0, 0.5, 1][Math.floor(random() * 3)]
  let left = Buffer.from(inode.durable)
  for (const { at, bytes } of inode.pending) {
    if (!bytes) {
      if (random() < keep) left = left.subarray(0, at)
      continue
    }
    for (const { at: from, sector } of sectorsOf(bytes, at)) {
      if (random() < keep) left = overlay(left, from, sector)
    }
  }
  return left
}

/** @param {Buffer} bytes  @param {number} at */
function sectorsOf(bytes, at) {
  const sectors = []
  for (let from = 0; from < bytes.length; ) {
    const end = Math.min(bytes.length, from + SECTOR_BYTES - ((at + from) % SECTOR_BYTES))
    sectors.push({ at: at + from, sector: bytes.subarray(from, end) })
    from = end
  }
  return sectors
}

/** @param {Buffer} bytes  @param {number} at  @param {Buffer} over */
function overlay(bytes, at, over) {
  const size = Math.max(bytes.length, at + over.length)
  const all = Buffer.alloc(size)
  bytes.copy(all)
  over.copy(all, at)
  return all
}

/** Time passes at once where somebody waits for it. */
export class SimulatedClock {
  ms = 0
  now = () => this.ms

  /** @param {number} ms  @param {() => void} call */
  after = (ms, call) => {
    const dueMs = this.ms + ms
    const timer = setImmediate(() => {
      this.ms = Math.max(this.ms, dueMs)
      call()
    })
    return () => clearImmediate(timer)
  }
}
