// swift-tools-version: 5.10
// Programs around swift-homomorphic-encryption, for tests of this server by Apple's own client and for timings of
// Apple's own server. build.py puts the two packages side by side and builds these.
import PackageDescription

// The setting of the library's own programs.
let settings: [SwiftSetting] = [.unsafeFlags(["-cross-module-optimization"], .when(configuration: .release))]
let library: [Target.Dependency] = [
    .product(name: "HomomorphicEncryption", package: "swift-homomorphic-encryption"),
    .product(name: "HomomorphicEncryptionProtobuf", package: "swift-homomorphic-encryption"),
    .product(name: "PrivateInformationRetrieval", package: "swift-homomorphic-encryption"),
    .product(name: "PrivateInformationRetrievalProtobuf", package: "swift-homomorphic-encryption"),
]

let package = Package(
    name: "spirea-conformance-apple",
    platforms: [.macOS(.v14)],
    // The versions that the library's Package.resolved names.
    dependencies: [
        .package(path: "../swift-homomorphic-encryption"),
        .package(url: "https://github.com/apple/swift-algorithms", exact: "1.2.0"),
        .package(url: "https://github.com/apple/swift-argument-parser.git", exact: "1.4.0"),
        .package(url: "https://github.com/apple/swift-crypto.git", exact: "3.5.2"),
        .package(url: "https://github.com/apple/swift-log.git", exact: "1.6.1"),
        .package(url: "https://github.com/apple/swift-numerics", exact: "1.0.2"),
        .package(url: "https://github.com/apple/swift-protobuf", exact: "1.28.2"),
    ],
    targets: [
        .executableTarget(
            name: "AppleClient",
            dependencies: library + [.product(name: "Crypto", package: "swift-crypto")],
            swiftSettings: settings),
        .executableTarget(name: "AppleServer", dependencies: library, swiftSettings: settings),
    ])
